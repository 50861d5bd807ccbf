import assert from "node:assert/strict";
import { test } from "node:test";
import { type Begin, addressOf, everything, readSpot, readTrail, start, writeTrail } from "./places.js";

const begins: readonly Begin[] = [start, { after: "a=", seen: 100 }, { after: "b+/&", seen: 200 }];

test("an address has the filter, the sort, the page and the open document", () => {
  const spot = { ...everything, filter: '{"a": "é&#"}', sort: "-a", begin: begins[2]!, id: "x" };
  const address = addressOf(["shop", "a/b"], spot);
  assert.deepEqual(readSpot(address.slice(address.indexOf("#") + 1)), spot);
  assert.equal(addressOf(["shop"]).includes("#"), false);
});

test("the browser keeps the pages before the one of an address", () => {
  assert.deepEqual(readTrail(begins[2]!, writeTrail(begins)), begins);
  assert.deepEqual(readTrail(start, writeTrail(begins)), [start]);
  assert.deepEqual(readTrail(begins[1]!, writeTrail(begins)), begins.slice(0, 2));
});

test("a link to a page knows none before it", () => {
  for (const state of [null, { trail: "x" }, { trail: [1, { after: 1 }] }]) assert.deepEqual(readTrail(begins[2]!, state), [begins[2]]);
});

test("what was typed by hand is no page", () => {
  assert.deepEqual(readSpot("seen=5&view=nothing&id={").begin, start);
  assert.deepEqual(readSpot("after=x&seen=many").begin, { after: "x", seen: 1 });
});
