import assert from "node:assert/strict";
import { test } from "node:test";
import { hearKept, dropKept, keptKey, listNames, writeKept } from "./kept.js";

test("what is stored for a user is listed by its further names, and changes are heard", () => {
  let heard = 0;
  const stop = hearKept(() => (heard += 1), true);
  const key = keptKey("ada", "document", "shop/orders", "5");
  writeKept(key, { text: "x" });
  writeKept(keptKey("bob", "document", "shop/orders", "6"), {});
  writeKept(keptKey("ada", "new-document", "shop/orders"), {});
  assert.deepEqual(listNames("ada", "document"), [["shop/orders", "5"]]);
  assert.deepEqual(listNames("ada", "new-document"), [["shop/orders"]]);
  dropKept(key);
  assert.deepEqual(listNames("ada", "document"), []);
  assert.equal(heard, 4);
  stop();
});
