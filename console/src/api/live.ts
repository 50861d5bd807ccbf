/** Live queries: GraphQL over server-sent events, one connection for each query. */

import { isRecord } from "./error.js";
import { type Answer, type Question, type RequestHeaders, appPath, readAnswer, readErrors, writeQuestion } from "./graphql.js";
import { send } from "./session.js";
import { readEvents } from "./sse.js";

/** `answer`: the current answer; `ended`: the server ends the query, with errors if it gives a reason; `lost`: the connection broke. */
export type LiveEvent =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "ended"; readonly errors: Answer["errors"] }
  | { readonly kind: "lost" };

const eventStream = "text/event-stream";

/** The events of a live query; the last one is never an answer to a query that the server still follows. */
export async function* followQuery(uri: string, question: Question, signal: AbortSignal, own: RequestHeaders = {}): AsyncGenerator<LiveEvent> {
  const started = performance.now();
  const headers = { ...own, "Content-Type": "application/json", Accept: `${eventStream}, application/graphql-response+json;q=0.9, application/json;q=0.9` };
  const response = await send(appPath(uri), { method: "POST", headers, body: writeQuestion(question), signal });
  if (response.body === null || !(response.headers.get("Content-Type") ?? "").startsWith(eventStream)) {
    // Rejected before it began, such as a text that cannot be parsed.
    yield { kind: "answer", answer: readAnswer(response.status, performance.now() - started, new Uint8Array(await response.arrayBuffer())) };
    yield { kind: "ended", errors: [] };
    return;
  }
  let hasAnswer = false;
  try {
    for await (const { name, data } of readEvents(response.body, () => undefined)) {
      if (name === "complete") {
        yield { kind: "ended", errors: [] };
        return;
      }
      if (name !== "next") continue;
      const answer = readAnswer(response.status, performance.now() - started, new TextEncoder().encode(data));
      if (hasAnswer && !(isRecord(answer.body) && "data" in answer.body)) {
        yield { kind: "ended", errors: readErrors(answer.body) };
        return;
      }
      hasAnswer = true;
      yield { kind: "answer", answer };
    }
  } catch (thrown) {
    if (signal.aborted) throw thrown;
  }
  yield { kind: "lost" };
}
