import assert from "node:assert/strict";
import { test } from "node:test";
import { Numeral } from "../../parts/json.js";
import { writeCsv } from "./answerCsv.js";

test("rows are whole: every column, long texts, long numbers, lists", () => {
  const long = "x".repeat(500);
  const number = new Numeral("9007199254740993");
  const rows = [{ id: number, who: { name: long }, tags: ["a", number] }, { late: true, who: null }];
  assert.equal(writeCsv(rows), `id,who.name,tags,late\r\n9007199254740993,${long},"[""a"",""9007199254740993""]",\r\n,,,true\r\n`);
});

test("no cell is a formula, numbers stay numbers, quotes and lines are quoted", () => {
  assert.equal(writeCsv([{ "=a": "=1+1", b: -5, c: 'a"b\nc', d: "" }]), `'=a,b,c,d\r\n'=1+1,-5,"a""b\nc",""\r\n`);
});

test("a row that is no object has one column, and an empty cell alone is not an empty line", () => {
  assert.equal(writeCsv([null, "a"]), 'value\r\n""\r\na\r\n');
});
