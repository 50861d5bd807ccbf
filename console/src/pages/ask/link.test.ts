import assert from "node:assert/strict";
import { test } from "node:test";
import { readShared, writePlace, writeShared } from "./link.js";

const plain = { query: "{ posts { title } }", variables: "", operation: null, view: "tree" } as const;

test("a link has the query, what belongs to it, and the view of its result", () => {
  for (const shared of [plain, { query: 'query A($n: Int) { a(n: $n, t: "é&#+%") } query B { b }', variables: '{"n": 1}', operation: "B", view: "plan" as const }]) {
    assert.deepEqual(readShared(writeShared(shared)), shared);
  }
});

test("what a link does not say is as it is at the beginning, and nonsense is nothing", () => {
  assert.deepEqual(readShared("query=%7Ba%7D&view=upside-down"), { ...plain, query: "{a}" });
  assert.equal(readShared("view=table"), null);
  assert.equal(readShared(`query=${"a".repeat(100_001)}`), null);
});

test("a page without a query, and one that no link can carry, have a short address", () => {
  assert.equal(writePlace({ ...plain, query: " \n" }), "");
  assert.equal(writePlace({ ...plain, query: "a".repeat(100_001) }), "");
  assert.equal(writePlace(plain), writeShared(plain));
});
