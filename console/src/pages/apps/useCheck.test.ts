import assert from "node:assert/strict";
import { test } from "node:test";
import { pauseBefore } from "./useCheck.js";

test("the first check runs immediately, later ones after a pause, also if none has ended yet", () => {
  assert.equal(pauseBefore(null), 0);
  assert.equal(pauseBefore(0), pauseBefore(10));
  assert.ok(pauseBefore(0) >= 300);
});

test("a definition whose check takes long is checked less often", () => {
  assert.equal(pauseBefore(1200), 1200);
  assert.equal(pauseBefore(60_000), 3000);
});
