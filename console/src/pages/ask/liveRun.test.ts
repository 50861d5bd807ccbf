import assert from "node:assert/strict";
import { test } from "node:test";
import { readAnswer } from "../../api/graphql.js";
import type { LiveEvent } from "../../api/live.js";
import { type Live, firstPause, runLive } from "./liveRun.js";

const answerOf = (text: string, status = 200): LiveEvent => ({ kind: "answer", answer: readAnswer(status, 1, new TextEncoder().encode(text)) });
const ended: LiveEvent = { kind: "ended", errors: [] };

/** Runs connections one after the other; returns what was shown and how long it waited. */
async function follow(...connections: readonly (readonly (LiveEvent | Error)[])[]) {
  const shown: [string, Live["phase"], number][] = [];
  const waits: number[] = [];
  const left = [...connections];
  const controller = new AbortController();
  // eslint-disable-next-line @typescript-eslint/require-await -- the real one waits
  async function* open() {
    for (const one of left.shift() ?? []) {
      if (one instanceof Error) throw one;
      yield one;
    }
  }
  const wait = (ms: number) => {
    waits.push(ms);
    if (left.length === 0) controller.abort();
    return Promise.resolve();
  };
  await runLive({ follow: open, wait, onChange: (answer, { phase, count }) => shown.push([answer.text, phase, count]) }, controller.signal);
  return { shown, waits };
}

test("each answer replaces the one before and is counted, until the server ends the query", async () => {
  const { shown } = await follow([answerOf('{"data":1}'), answerOf('{"data":2}'), ended]);
  assert.deepEqual(shown, [['{"data":1}', "open", 1], ['{"data":2}', "open", 2], ['{"data":2}', "ended", 2]]);
});

test("a lost connection is opened again, more and more slowly, and the last answer stays", async () => {
  const lost: LiveEvent = { kind: "lost" };
  const { shown, waits } = await follow([answerOf("{}"), lost], [new Error("no connection")], [lost], [answerOf("{}"), ended]);
  assert.deepEqual(waits, [firstPause, firstPause * 2, firstPause * 4]);
  assert.deepEqual(shown.map(([, phase, count]) => [phase, count]), [["open", 1], ["waiting", 1], ["waiting", 1], ["waiting", 1], ["open", 2], ["ended", 2]]);
});

test("a server that is busy or starts again is tried again, and the last answer stays", async () => {
  const { shown, waits } = await follow([answerOf("{}"), { kind: "lost" }], [answerOf("", 503), ended], [answerOf("{}"), ended]);
  assert.equal(waits.length, 2);
  assert.deepEqual(shown.map(([text, phase]) => [text, phase]), [["{}", "open"], ["{}", "waiting"], ["{}", "waiting"], ["{}", "open"], ["{}", "ended"]]);
});

test("a failure before the first answer is an error, not a lost connection", async () => {
  await assert.rejects(follow([new Error("refused")]), /refused/);
});

test("a query that is stopped shows nothing more", async () => {
  const { shown } = await follow([answerOf("{}"), { kind: "lost" }]);
  assert.deepEqual(shown.map(([, phase]) => phase), ["open", "waiting"]);
});
