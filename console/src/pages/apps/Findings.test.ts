import assert from "node:assert/strict";
import { test } from "node:test";
import { describePlace, partOf } from "./Findings.js";

test("a finding names its field, and the part where it is written", () => {
  const finding = { where: "mappings.Post.extra", what: "has no mapping", field: "Post.extra", part: "schema" as const, line: 4, column: 3 };
  assert.equal(describePlace(finding), "Post.extra, schema line 4");
  assert.equal(partOf(finding), "schema");
  assert.equal(describePlace({ where: "descriptor.uri", what: "", line: 1 }), "descriptor line 1");
  assert.equal(describePlace({ where: "descriptor", what: "" }), "descriptor");
});
