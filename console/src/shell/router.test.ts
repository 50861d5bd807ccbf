import assert from "node:assert/strict";
import { test } from "node:test";
import { withNoted } from "./router.js";

test("a text is noted next to what the address has", () => {
  assert.equal(withNoted("/console/apps", "", "find", "a b"), "/console/apps#find=a+b");
  assert.equal(withNoted("/console/access/users", "id=1&find=a", "find", "é&"), "/console/access/users#id=1&find=%C3%A9%26");
});

test("without the text nothing of it is left", () => {
  assert.equal(withNoted("/console/access/users", "id=1&find=a", "find", ""), "/console/access/users#id=1");
  assert.equal(withNoted("/console/apps", "find=a", "find", ""), "/console/apps");
});
