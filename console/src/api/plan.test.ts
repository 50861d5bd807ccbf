import assert from "node:assert/strict";
import { test } from "node:test";
import { type Command, sumCommands } from "./plan.js";

const command = (startedMs: number, ms: number, documents = 1): Command => ({ field: "", kind: "find", collection: "", parents: 1, documents, startedMs, ms });

test("commands one after the other took as long as the database was busy", () => {
  assert.deepEqual(sumCommands([command(20, 5, 2), command(0, 10, 30)]), { busyMs: 15, tookMs: 15, documents: 32 });
});

test("time that several commands share counts once", () => {
  assert.deepEqual(sumCommands([command(0, 10), command(2, 3), command(5, 10)]), { busyMs: 15, tookMs: 23, documents: 3 });
  assert.deepEqual(sumCommands([]), { busyMs: 0, tookMs: 0, documents: 0 });
});
