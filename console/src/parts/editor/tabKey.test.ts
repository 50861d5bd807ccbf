import assert from "node:assert/strict";
import { test } from "node:test";
import { describeTab, isToggle, toggleTab } from "./tabKey.js";

const pressed = { code: "KeyM", ctrlKey: false, altKey: false, shiftKey: false, metaKey: false };

test("one key makes Tab indent: another on a Mac", () => {
  assert.equal(isToggle({ ...pressed, ctrlKey: true }, false), true);
  assert.equal(isToggle({ ...pressed, ctrlKey: true }, true), false);
  assert.equal(isToggle({ ...pressed, altKey: true, shiftKey: true }, true), true);
  assert.equal(isToggle({ ...pressed, ctrlKey: true, shiftKey: true }, false), false);
  assert.equal(isToggle(pressed, false), false);
});

test("what the editor says of Tab names the key that changes it", () => {
  for (const indents of [true, false]) assert.ok(describeTab(indents).includes(toggleTab.name));
  assert.notEqual(describeTab(true), describeTab(false));
});
