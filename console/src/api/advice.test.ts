import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf, nameIndex } from "./advice.js";

test("an index is named by its keys, in their order", () => {
  assert.equal(nameIndex({ sku: 1, "a.b": -1, text: "text" }), "sku_1_a.b_-1_text_text");
});

test("the field of a place in the schema or in the mappings", () => {
  assert.equal(fieldOf("schema: Post.title"), "Post.title");
  assert.equal(fieldOf("mappings.Query.posts.find.likes"), "Query.posts");
  for (const where of [null, "descriptor.limits", "rule reads"]) assert.equal(fieldOf(where), null);
});
