import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fields, parseTyped } from "../../api/typed.js";
import { namesOf, summarize } from "./summary.js";

const read = (text: string) => parseTyped(text) as readonly Fields[];
const find = (text: string, path: string) => {
  const found = summarize(read(text)).find((one) => one.path === path);
  assert.ok(found, path);
  return found;
};

test("types, gaps and examples of each field, also inside of objects and lists", () => {
  const text = '[{"_id": 1, "a": {"b": "x"}}, {"_id": {"$numberLong": "2"}, "a": {}, "c": null}, {"_id": 3, "l": [{"n": 1}, {"n": "1"}, {}]}]';
  assert.deepEqual(find(text, "_id").types, [["Int32", 2], ["Int64", 1]]);
  assert.deepEqual(find(text, "_id").missing, { count: 0, of: 3 });
  assert.deepEqual(find(text, "a").missing, { count: 1, of: 3 });
  assert.deepEqual(find(text, "a.b").missing, { count: 1, of: 2 });
  assert.deepEqual(find(text, "a.b").examples, ["x"]);
  assert.deepEqual(find(text, "c").types, [["Null", 1]]);
  assert.deepEqual(find(text, "l[]").types, [["Object", 3]]);
  assert.equal(find(text, "l[]").missing, null);
  assert.deepEqual(find(text, "l[].n").missing, { count: 1, of: 3 });
});

test("numbers and dates are spread over ranges, values that repeat are counted", () => {
  const numbers = find(JSON.stringify(Array.from({ length: 101 }, (_, n) => ({ n }))), "n");
  assert.ok(numbers.isRange);
  assert.deepEqual(numbers.bars.map((one) => one.count), [10, 10, 10, 10, 10, 10, 10, 10, 10, 11]);
  assert.equal(numbers.bars[0]?.label, "0 to 10");
  const dates = find(JSON.stringify(Array.from({ length: 20 }, (_, n) => ({ at: { $date: Date.UTC(2024, n) } }))), "at");
  assert.equal(dates.bars[0]?.label.slice(0, 10), "2024-01-01");
  const roles = find('[{"r": "a"}, {"r": "b"}, {"r": "a"}, {"r": true}]', "r");
  assert.deepEqual(roles.bars, [{ label: "a", count: 2 }, { label: "b", count: 1 }, { label: "true", count: 1 }]);
  assert.deepEqual(find('[{"r": "a"}, {"r": "b"}]', "r").bars, []);
  assert.deepEqual(find('[{"r": 1}, {"r": "1"}, {"r": 1}]', "r").bars, [{ label: "1", count: 2 }, { label: '"1"', count: 1 }]);
});

test("dates that JavaScript does not have, and the largest numbers, have ranges, too", () => {
  const dates = find(JSON.stringify(Array.from({ length: 10 }, (_, n) => ({ at: { $date: { $numberLong: String(9e15 * (n % 2 === 0 ? 1 : -1) + n) } } }))), "at");
  assert.ok(dates.isRange);
  assert.equal(dates.bars[0]?.label, "-8999999999999999 ms to -226189-01-31");
  assert.equal(dates.bars[9]?.count, 5);
  const far = find(JSON.stringify(Array.from({ length: 10 }, (_, n) => ({ at: { $date: { $numberLong: String(4e14 + n) } } }))), "at");
  assert.match(far.bars[0]!.label, /^\+0\d{5}-\d\d-\d\d to /);
  const large = find('[{"n": 1e308}, {"n": -1e308}, {"n": 0.0}, {"n": 1.0}, {"n": 1.7976931348623157e308}, {"n": -1.7976931348623157e308}]', "n");
  assert.deepEqual(large.bars.map((one) => one.count), [1, 0, 1, 0, 0, 2, 0, 1, 0, 1]);
  for (const { label } of large.bars) assert.doesNotMatch(label, /NaN|∞|Infinity/);
  assert.equal(large.bars[9]?.label, "1.438e+308 to 1.798e+308");
  const small = find(JSON.stringify(Array.from({ length: 6 }, (_, n) => ({ n: n * 5e-324 }))), "n");
  assert.equal(small.bars.reduce((all, one) => all + one.count, 0), 6);
});

test("the names of fields as a filter writes them", () => {
  assert.deepEqual([...namesOf(summarize(read('[{"l": [{"n": 1}], "s": ["x"]}]'))).entries()], [["l", "Array"], ["l.n", "Int32"], ["s", "Array"]]);
});
