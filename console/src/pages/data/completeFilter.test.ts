import assert from "node:assert/strict";
import { test } from "node:test";
import { completeFilter } from "./completeFilter.js";

const names = new Map([["title", "String"], ["author.name", "String"], ["items", "Array"], ["items.sku", "String"]]);
const labels = (before: string) => completeFilter(before, names)?.options.map((one) => one.label) ?? [];

test("names of fields where a name is expected, as the notation needs them", () => {
  for (const before of ["{", "{ti", "{a: 1, ", "{$or: [{", "{$and: [{a: 1}, {b"]) {
    assert.ok(labels(before).includes("title"), before);
    assert.ok(labels(before).includes('"author.name"'), before);
    assert.ok(labels(before).includes("$or"), before);
    assert.ok(!labels(before).includes("$gt"), before);
  }
  assert.ok(labels('{"ti').includes('"title"'));
  assert.ok(labels("{'ti").includes("'title'"));
  assert.equal(completeFilter('{"ti', names)?.from, 1);
  assert.equal(completeFilter("{a: 1, ti", names)?.from, 7);
});

test("operators below a field, and the fields of elements", () => {
  for (const before of ["{title: {", '{"title": {"$g', "{title: {$gt: 1, $l", "{title: {$not: {"]) {
    assert.ok(labels(before).some((one) => one.includes("$gte")), before);
    assert.ok(!labels(before).includes("title"), before);
  }
  assert.deepEqual(labels("{items: {$elemMatch: {"), ["sku"]);
});

test("values where a value is expected, and nothing inside of a text or outside of the filter", () => {
  assert.ok(labels("{title: ").includes('ISODate("")'));
  assert.ok(labels("{title: {$in: [").includes("null"));
  for (const before of ["", "{title: \"x", "{$or: [", '{a: ISODate("', "{a: 1}"]) assert.deepEqual(labels(before), [], before);
});
