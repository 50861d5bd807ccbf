import assert from "node:assert/strict";
import { test } from "node:test";
import { type AppVersion, findPair } from "./versions.js";

const version = (number: number, change = "changed"): AppVersion => ({ version: number, at: "", by: "ann", change, parts: [], breaking: 0 });

test("a version is compared with the one before it that has a definition", () => {
  const versions = [version(5), version(4, "deleted"), version(2), version(1, "created")];
  assert.deepEqual(findPair(versions, 5), [5, 2]);
  assert.deepEqual(findPair(versions, 2), [2, 1]);
  assert.equal(findPair(versions, 1), null);
});
