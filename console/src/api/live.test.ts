import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { type LiveEvent, followQuery } from "./live.js";
import { settings } from "./settings.js";

Object.assign(settings.paths, { graphql: "/graphql" });

const question = { query: "query @live { a }", variables: "", operation: null };
const realFetch = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = realFetch;
});

async function follow(body: string, type: string, status = 200) {
  let sent: Headers | undefined;
  globalThis.fetch = ((_: string, init: RequestInit) => {
    sent = init.headers as Headers;
    return Promise.resolve(new Response(body, { status, headers: { "Content-Type": type } }));
  }) as typeof fetch;
  const events: LiveEvent[] = [];
  for await (const one of followQuery("blog", question, new AbortController().signal, { "X-Tenant": "a" })) events.push(one);
  return { events: events.map((one) => (one.kind === "answer" ? one.answer.text : one)), sent };
}

test("answers, then the end; the server is asked for events with the caller's headers", async () => {
  const { events, sent } = await follow('event:next\ndata:{"data":1}\n\n:\n\nevent:next\ndata:{"data":2}\n\nevent:complete\ndata:\n\n', "text/event-stream");
  assert.deepEqual(events, ['{"data":1}', '{"data":2}', { kind: "ended", errors: [] }]);
  assert.match(sent?.get("Accept") ?? "", /^text\/event-stream,/);
  assert.equal(sent?.get("X-Tenant"), "a");
});

test("errors without data after an answer say why the query has ended", async () => {
  const { events } = await follow('event:next\ndata:{"data":1}\n\nevent:next\ndata:{"errors":[{"message":"not allowed"}]}\n\nevent:complete\ndata:\n\n', "text/event-stream");
  const last = events[1];
  assert.ok(typeof last === "object" && last.kind === "ended");
  assert.equal(last.errors[0]?.message, "not allowed");
});

test("a stream that breaks off is lost", async () => {
  assert.deepEqual((await follow('event:next\ndata:{"data":1}\n\nevent:next\ndata:{"da', "text/event-stream")).events, ['{"data":1}', { kind: "lost" }]);
});

test("a query that is rejected has one answer, whatever its type", async () => {
  assert.deepEqual((await follow('{"errors":[]}', "application/json", 400)).events, ['{"errors":[]}', { kind: "ended", errors: [] }]);
});
