import assert from "node:assert/strict";
import { test } from "node:test";
import { locateField } from "./locateField.js";

test("a field is found in its own type", () => {
  const schema = "type Query { title: Int }\ntype Post {\n  title: String\n}\nextend type Post { likes: Int }";
  assert.deepEqual(locateField(schema, "Post.title"), { line: 3, column: 3 });
  assert.deepEqual(locateField(schema, "Post.likes"), { line: 5, column: 20 });
  assert.equal(locateField(schema, "Post.nothing"), null);
  assert.equal(locateField("type {", "Post.title"), null);
});
