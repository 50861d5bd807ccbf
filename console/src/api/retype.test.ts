import assert from "node:assert/strict";
import { test } from "node:test";
import { explainMistake, nameType, replaceAt, retype, textToEdit } from "./retype.js";
import { parseFields, parseTyped, writeTyped } from "./typed.js";

const change = (json: string, text: string) => {
  const before = parseTyped(json);
  const after = retype(before, text);
  if (after !== null || json === "null") assert.equal(nameType(after), nameType(before), json);
  return after === null ? null : writeTyped(after, 0);
};

test("a value that is typed over another has its type", () => {
  assert.equal(change("1", "2"), "2");
  assert.equal(change('{"$numberLong": "1"}', "+9223372036854775807"), '{"$numberLong": "9223372036854775807"}');
  assert.equal(change("1.5", "2"), '{"$numberDouble": "2"}');
  assert.equal(change("1.5", "-0"), '{"$numberDouble": "-0.0"}');
  assert.equal(change("1.5", "+0.50e1"), '{"$numberDouble": "5"}');
  assert.equal(change("1.5", "9007199254740992"), '{"$numberDouble": "9007199254740992"}');
  assert.equal(change("1.5", "100000000000000000000000"), '{"$numberDouble": "1e+23"}');
  assert.equal(change("1.5", "1e-7"), '{"$numberDouble": "1e-7"}');
  assert.equal(change('{"$numberDouble": "NaN"}', "-Infinity"), '{"$numberDouble": "-Infinity"}');
  assert.equal(change('{"$numberDecimal": "1.50"}', "1.500"), '{"$numberDecimal": "1.500"}');
  assert.equal(change('{"$date": 0}', "2024-02-29"), '{"$date": "2024-02-29T00:00:00.000Z"}');
  assert.equal(change('{"$date": 0}', "2024-02-29T01:00:00+01:00"), '{"$date": "2024-02-29T00:00:00.000Z"}');
  assert.equal(change('{"$oid": "5d7a4b59cf6eeb5f9a3b8d2e"}', "5D7A4B59CF6EEB5F9A3B8D2F"), '{"$oid": "5d7a4b59cf6eeb5f9a3b8d2f"}');
  assert.equal(change('"x"', "1"), '"1"');
  assert.equal(change("true", "false"), "false");
  assert.equal(change('{"$regex": "a", "$options": "i"}', '{"$regex": "b", "$options": ""}'), '{"$regex": "b", "$options": ""}');
});

test("a text that is no value of the type is rejected", () => {
  for (const [json, ...texts] of [
    ["1", "1.5", "2147483648", "x", ""],
    ['{"$numberLong": "1"}', "9223372036854775808", "1.0"],
    ["1.5", "1,5", "1e999", "1e-999", "9007199254740993", "0.10000000000000001"],
    ['{"$date": 0}', "2024-02-30T", "2024-02-30", "2023-02-29", "2024-13-01", "2024-04-31T00:00:00Z", "2024-02-29T00:00:00.0001Z", "2024-02-29T00:00:00", "now"],
    ['{"$oid": "5d7a4b59cf6eeb5f9a3b8d2e"}', "5d7a"],
    ["true", "yes", "1", '"true"'],
    ["{}", "[]"],
  ] as const) for (const text of texts) assert.equal(change(json, text), null, `${json} ${text}`);
});

test("the text to begin with is the value, and gives it back", () => {
  for (const json of ["1", "1.5", '{"$numberLong": "5"}', '"a\\"b"', "true", '{"$date": "2024-02-29T00:00:00.000Z"}', '{"$timestamp": {"t": 7, "i": 3}}']) {
    const value = parseTyped(json);
    const again = retype(value, textToEdit(value));
    assert.equal(nameType(again), nameType(value));
    assert.equal(textToEdit(again), textToEdit(value));
  }
});

test("a text with carriage returns is edited as JSON, and keeps them", () => {
  const text = '"a\\r\\nb\\rc"';
  assert.equal(textToEdit(parseTyped(text)), text);
  assert.equal(change(text, '"A\\r\\nb"'), '"A\\r\\nb"');
  assert.equal(change(text, "a\nb"), null);
  assert.equal(change(text, "1"), null);
  assert.match(explainMistake(parseTyped(text), "a"), /JSON notation/);
});

test("what is rejected is explained", () => {
  assert.match(explainMistake(parseTyped("1.5"), " 9007199254740993 "), /the nearest is 9007199254740992/);
  assert.match(explainMistake(parseTyped("1.5"), "1e999"), /^Not a value of type Double/);
  assert.match(explainMistake(parseTyped("1"), "1.5"), /^Not a value of type Int32/);
});

test("a day that does not exist is no date in JSON either", () => {
  assert.equal(nameType(parseTyped('{"$date": "2024-02-29"}')), "Date");
  assert.equal(nameType(parseTyped('{"$date": "2024-02-30T00:00:00Z"}')), "Object");
});

test("a value is replaced at its place, and nothing else moves", () => {
  const fields = parseFields('{"10": 1, "9": {"a": [1, {"b.c": 2}]}, "x": null}');
  assert.equal(writeTyped(replaceAt(fields, ["9", "a", 1, "b.c"], "new"), 0), '{"10": 1, "9": {"a": [1, {"b.c": "new"}]}, "x": null}');
});
