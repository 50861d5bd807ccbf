import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "../../parts/json.js";
import { cellOf } from "./lists.js";
import { findCharts, mostPoints, readPoints, summarize } from "./chart.js";

const posts = [{ _id: 1, title: "A", likes: 3, author: { age: 30 } }, { _id: 2, title: "B", likes: null, author: null }, { _id: 3, title: "C", likes: 9, author: { age: 50 } }];

test("a list with a number can be drawn; ids come last, names of rows first", () => {
  const [chart] = findCharts({ posts });
  assert.deepEqual(chart?.numbers, ["likes", "author.age", "_id"]);
  assert.deepEqual(chart?.labels.slice(0, 2), ["title", "_id"]);
  assert.deepEqual(findCharts({ posts: [{ title: "A" }, { title: "B" }], one: [{ n: 1 }] }), []);
});

test("a row without a field has no value for it, whatever its name", () => {
  const rows: readonly unknown[] = [{ a: 1, constructor: 2, toString: { valueOf: 3 } }, { a: 4 }, { a: 5, toString: {} }];
  const [chart] = findCharts({ rows });
  assert.deepEqual(readPoints(chart!, "constructor", "toString.valueOf"), { labels: ["2", "", ""], values: [3, null, null] });
  assert.deepEqual(rows.map((row) => cellOf(row, "toString.valueOf")), ["3", "", ""]);
});

test("points are in the order of the answer, with gaps for missing values", () => {
  const [chart] = findCharts({ posts });
  assert.deepEqual(readPoints(chart!, "title", "likes"), { labels: ["A", "B", "C"], values: [3, null, 9] });
  assert.deepEqual(readPoints(chart!, null, "author.age"), { labels: ["1", "2", "3"], values: [30, null, 50] });
});

test("long numbers are drawn, texts with digits are not numbers", () => {
  const [chart] = findCharts(parseJson('{"a":[{"n":9007199254740993,"t":"1"},{"n":1,"t":"2"}]}'));
  assert.deepEqual(chart?.numbers, ["n"]);
  assert.equal(readPoints(chart, "t", "n").values[0], 9007199254740992);
});

test("a long list is cut, and the chart has a summary", () => {
  const [chart] = findCharts({ a: Array.from({ length: mostPoints + 5 }, (_, n) => ({ n })) });
  assert.equal(readPoints(chart!, null, "n").values.length, mostPoints);
  assert.equal(summarize({ labels: ["A", "B", "C"], values: [3, null, 1200] }, "likes"), "likes: 2 values, from 3 (A) to 1,200 (C)");
});
