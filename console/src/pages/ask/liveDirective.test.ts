import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSchema } from "graphql";
import { allowsLive, isLive, toggleLive } from "./liveDirective.js";
import { readOperations } from "./operations.js";

const toggle = (text: string) => toggleLive(text, readOperations(text).operations[0]!);

for (const [before, after] of [
  ["{ a }", "query @live { a }"],
  ["query Q { a }", "query Q @live { a }"],
  ["query Q($a: Int){ a }", "query Q($a: Int) @live { a }"],
  ["# why\nquery Q @other { a }", "# why\nquery Q @other @live { a }"],
] as const) {
  test(`the directive is put into ${JSON.stringify(before)}, and removed again`, () => {
    assert.equal(toggle(before), after);
    assert.equal(isLive(readOperations(after).operations[0]!), true);
    assert.equal(isLive(readOperations(toggle(after)).operations[0]!), false);
  });
}

test("the schema of the caller says whether queries may be live", () => {
  assert.equal(allowsLive(undefined), undefined);
  assert.equal(allowsLive(buildSchema("type Query { a: Int }")), false);
  assert.equal(allowsLive(buildSchema("directive @live on QUERY type Query { a: Int }")), true);
});
