import assert from "node:assert/strict";
import { test } from "node:test";
import { joinCsv } from "./csv.js";

test("one page stays as it is", () => {
  assert.equal(joinCsv(["a,b\r\n1,2\r\n"]), "a,b\r\n1,2\r\n");
});

test("cells of all pages are below the columns with their names", () => {
  const pages = ['_id,a\r\n1,"x,\r\n""y"""\r\n', "_id,b,a\r\n2,,z\r\n3,q,\r\n", "a,_id\r\n,4\r\n"];
  assert.equal(joinCsv(pages), '_id,a,b\r\n1,"x,\r\n""y""",\r\n2,z,\r\n3,,q\r\n4,,\r\n');
});

test("names and cells in quotes, and empty texts, stay what they are", () => {
  assert.equal(joinCsv(['"a,b"\r\n""\r\n', '"a,b"\r\n"x"\r\n']), '"a,b"\r\n""\r\n"x"\r\n');
});

test("a page without documents adds nothing", () => {
  assert.equal(joinCsv(["a,b\r\n1,2\r\n", "\r\n"]), "a,b\r\n1,2\r\n");
});

test("a cell may have megabytes, and quotes", () => {
  const large = `"${'x""'.repeat(3_000_000)}"`;
  assert.equal(joinCsv([`a\r\n${large}\r\n`, "a\r\n1\r\n"]), `a\r\n${large}\r\n1\r\n`);
});

test("a cell without its last quote goes to the end", () => {
  assert.equal(joinCsv(['"a\r\n1\r\n', "b\r\n2\r\n"]), '"a\r\n1\r\n,b\r\n,2\r\n');
});
