import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDifference } from "./changes.js";
import { parseFields } from "./typed.js";

const compare = (before: string, after: string) => describeDifference(parseFields(before), parseFields(after));
const describe = (before: string, after: string) => compare(before, after).patch;

test("of embedded documents only what differs is sent: the rest may be hidden", () => {
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": {"n": 2}}'), '{"$set": {"deep.n": 2}}');
  assert.equal(describe('{"a": {"b": {"c": 1, "d": 1}}, "e": 1}', '{"a": {"b": {"d": {"x": null}}, "f": []}}'), '{"$set": {"a.b.d": {"x": null}, "a.f": []}, "$unset": {"e": "", "a.b.c": ""}}');
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": {}}'), '{"$unset": {"deep.n": ""}}');
  assert.equal(describe('{"deep": {}}', '{"deep": {"10": 1.0}}'), '{"$set": {"deep.10": 1.0}}');
  assert.equal(describe('{"deep": {"n": 1}}', '{"deep": 1, "new": {"x": 1}}'), '{"$set": {"deep": 1, "new": {"x": 1}}}');
  assert.equal(describe('{"deep": {"n": 1}}', "{}"), '{"$unset": {"deep": ""}}');
  assert.equal(describe('{"at": {"in": {"$date": 0}}}', '{"at": {"in": {"$date": 1}}}'), '{"$set": {"at.in": {"$date": "1970-01-01T00:00:00.001Z"}}}');
});

test("lists of plain values are sent whole, and what is the same is not sent", () => {
  assert.deepEqual(compare('{"l": [1, 2], "s": {"t": 1}}', '{"l": [2], "s": {"t": 1}}').whole, []);
  assert.equal(describe('{"l": [1, 2], "s": {"t": 1}}', '{"l": [2], "s": {"t": 1}}'), '{"$set": {"l": [2]}}');
  assert.equal(describe('{"n": {"$numberLong": "1"}}', '{"n": 1}'), '{"$set": {"n": 1}}');
});

test("elements of a list are changed where they are, and added at its end", () => {
  assert.equal(describe('{"l": [{"n": 1}, 2]}', '{"l": [{"n": 2}, 3]}'), '{"$set": {"l.0.n": 2, "l.1": 3}}');
  assert.equal(describe('{"o": {"l": [{"n": 1, "m": 1}]}}', '{"o": {"l": [{"n": 1}, {"n": 5}]}}'), '{"$set": {"o.l.1": {"n": 5}}, "$unset": {"o.l.0.m": ""}}');
  assert.equal(describe('{"l": [[{"n": 1}], [1]]}', '{"l": [[{"n": 2}], [1]]}'), '{"$set": {"l.0.0.n": 2}}');
  const { whole, former } = compare('{"a": {"b": true}, "l": [{"n": [{"m": "x", "o": {"p": null}}]}]}', '{"a": {"b": false}, "l": [{"n": [{"m": "y", "o": {"p": 1}, "new": 1}]}, 7]}');
  assert.deepEqual([whole, [...former]], [[], [["l.0.n.0.m", "x"], ["l.0.n.0.o.p", null]]]);
});

test("what is sent whole is named if something could be hidden in it", () => {
  const moved = compare('{"l": [{"n": 1}, {"n": 2}]}', '{"l": [{"n": 2}, {"n": 1}]}');
  assert.deepEqual([moved.patch, moved.whole, moved.former.size], ['{"$set": {"l": [{"n": 2}, {"n": 1}]}}', ["l"], 0]);
  assert.deepEqual(compare('{"l": [{"n": 1}, {"n": 2}]}', '{"l": [{"n": 2}]}').whole, ["l"]);
  assert.deepEqual(compare('{"l": [{"n": 1}, {"n": 2}]}', '{"l": [{"n": 1}]}').whole, ["l"]);
  assert.deepEqual(compare('{"l": [{"n": 1}]}', '{"l": [{"n": 0}, {"n": 1}]}').whole, ["l"]);
  assert.deepEqual(compare('{"l": [{"a": 1, "b": 1}]}', '{"l": [{"b": 1, "a": 2}]}').whole, ["l.0"]);
  assert.deepEqual(compare('{"a": {"b": 1, "c": 1}}', '{"a": {"c": 1, "b": 1}}').whole, ["a"]);
  assert.deepEqual(compare('{"b": 1, "c": 1}', '{"c": 1, "b": 1}').whole, [""]);
  assert.deepEqual(compare('{"l": [{"n": 1}], "a": {"b": 1}}', '{"l": 1}').whole, []);
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
