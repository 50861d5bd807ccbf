import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDifference } from "./changes.js";
import { parseFields } from "./typed.js";

const describe = (before: string, after: string) => describeDifference(parseFields(before), parseFields(after));

test("of embedded documents only what differs is sent: the rest may be hidden", () => {
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": {"n": 2}}'), '{"$set": {"deep.n": 2}}');
  assert.equal(describe('{"a": {"b": {"c": 1, "d": 1}}, "e": 1}', '{"a": {"b": {"d": {"x": null}}, "f": []}}'), '{"$set": {"a.b.d": {"x": null}, "a.f": []}, "$unset": {"e": "", "a.b.c": ""}}');
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": {}}'), '{"$unset": {"deep.n": ""}}');
  assert.equal(describe('{"deep": {}}', '{"deep": {"10": 1.0}}'), '{"$set": {"deep.10": 1.0}}');
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": 1, "new": {"x": 1}}'), '{"$set": {"deep": 1, "new": {"x": 1}}}');
  assert.equal(describe('{"deep": {"n": 1}}', "{}"), '{"$unset": {"deep": ""}}');
  assert.equal(describe('{"at": {"in": {"$date": 0}}}', '{"at": {"in": {"$date": 1}}}'), '{"$set": {"at.in": {"$date": "1970-01-01T00:00:00.001Z"}}}');
});

test("lists are sent whole, and what is the same is not sent", () => {
  assert.equal(describe('{"l": [{"n": 1}, 2], "s": {"t": 1}}', '{"l": [{"n": 2}, 2], "s": {"t": 1}}'), '{"$set": {"l": [{"n": 2}, 2]}}');
  assert.equal(describe('{"o": {"l": [{"n": 1}]}}', '{"o": {"l": [{"n": 2}]}}'), '{"$set": {"o.l": [{"n": 2}]}}');
  assert.equal(describe('{"n": {"$numberLong": "1"}}', '{"n": 1}'), '{"$set": {"n": 1}}');
});

test("where a path cannot say it, the object around it is sent", () => {
  assert.equal(describe('{"a": {"b": {"x.y": 1, "z": 1}}}', '{"a": {"b": {"x.y": 2, "z": 1}}}'), '{"$set": {"a.b": {"x.y": 2, "z": 1}}}');
  assert.equal(describe('{"a": {"x.y": 1, "z": 1}}', '{"a": {"x.y": 1, "z": 2}}'), '{"$set": {"a.z": 2}}');
  for (const name of ["$x", "x.y", ""]) {
    assert.equal(describe(`{"a": {"z": 1, "${name}": 1}}`, '{"a": {"z": 1}}'), '{"$set": {"a": {"z": 1}}}');
    assert.throws(() => describe(`{"z": 1, "${name}": 1}`, '{"z": 1}'), { code: "no-such-name" });
  }
  assert.equal(describe('{"a": {"b": 1, "c": 1}}', '{"a": {"c": 1, "b": 1}}'), '{"$set": {"a": {"c": 1, "b": 1}}}');
  assert.equal(describe('{"b": 1, "c": 1}', '{"c": 1, "b": 1}'), null);
});
