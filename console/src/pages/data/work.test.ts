import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFields } from "../../api/typed.js";
import { findMistake } from "./work.js";

const stored = parseFields('{"_id": {"$numberLong": "5"}, "a": 1, "_etag": {"$oid": "5d7a4b59cf6eeb5f9a3b8d2e"}}');

test("the whole document can be pasted, with the id and the etag that it has", () => {
  assert.equal(findMistake('{"_id": {"$numberLong": "5"}, "_etag": {"$oid": "5d7a4b59cf6eeb5f9a3b8d2e"}, "a": 2}', stored), null);
  assert.equal(findMistake('{"a": 2}', stored), null);
});

test("another id, be it of another type, and another etag are mistakes", () => {
  assert.match(findMistake('{"_id": 5}', stored)?.message ?? "", /_id of a document cannot change/);
  assert.match(findMistake('{"_etag": "x"}', stored)?.message ?? "", /server writes _etag/);
  assert.match(findMistake('{"_etag": "x"}', parseFields('{"_id": 1}'))?.message ?? "", /server writes _etag/);
});

test("the id of a new document can be chosen, its etag cannot", () => {
  assert.equal(findMistake('{"_id": 5}', null), null);
  assert.match(findMistake('{"_etag": "x"}', null)?.message ?? "", /server writes _etag/);
});
