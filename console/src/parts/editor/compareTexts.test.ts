import assert from "node:assert/strict";
import { test } from "node:test";
import { compareTexts } from "./compareTexts.js";

for (const [before, after, change] of [
  ["{ a }", "{ a b }", { from: 4, to: 4, insert: "b " }],
  ["{ a b }", "{ a }", { from: 4, to: 6, insert: "" }],
  ["aa", "aaa", { from: 2, to: 2, insert: "a" }],
  ["", "x", { from: 0, to: 0, insert: "x" }],
  ["abc", "xyz", { from: 0, to: 3, insert: "xyz" }],
] as const) {
  test(`${JSON.stringify(before)} becomes ${JSON.stringify(after)} by the smallest change`, () => {
    const found = compareTexts(before, after);
    assert.deepEqual(found, change);
    assert.equal(before.slice(0, found.from) + found.insert + before.slice(found.to), after);
  });
}
