/** A live query from its first answer to its end; a lost connection is opened again. */

import type { LiveEvent } from "../../api/live.js";
import type { Answer } from "../../api/graphql.js";

/** How a live query is: `open`: the server follows it; `waiting`: the connection was lost; the others are its end. */
export interface Live {
  readonly phase: "open" | "waiting" | "stopped" | "ended";
  /** How many answers have come. */
  readonly count: number;
  /** When the last one came, in ms. */
  readonly at: number;
  /** Why the server has ended it. */
  readonly errors: Answer["errors"];
}

export const firstPause = 1000; // ms, before a lost connection is opened again
const longestPause = 30_000;
const passing = [429, 502, 503, 504]; // a server that starts again, or is busy: the last answer stays

export function isFollowing(live: Live | undefined): boolean {
  return live?.phase === "open" || live?.phase === "waiting";
}

interface LiveRun {
  /** Opens a connection. */
  follow: () => AsyncIterable<LiveEvent>;
  /** Waits for so many ms, or until the query is stopped. */
  wait: (ms: number) => Promise<void>;
  onChange: (answer: Answer, live: Live) => void;
}

/** Follow a query until it ends or throws; a failure before the first answer is thrown, a later one is a lost connection. */
export async function runLive({ follow, wait, onChange }: LiveRun, signal: AbortSignal): Promise<void> {
  let last: Answer | null = null;
  let live: Live = { phase: "open", count: 0, at: 0, errors: [] };
  let pause = firstPause;
  const change = (next: Partial<Live>) => {
    live = { ...live, ...next };
    if (last !== null && !signal.aborted) onChange(last, live);
  };
  while (!signal.aborted) {
    try {
      for await (const event of follow()) {
        if (event.kind === "ended") {
          change({ phase: "ended", errors: event.errors });
          return;
        }
        if (event.kind === "lost" || (last !== null && passing.includes(event.answer.status))) break;
        last = event.answer;
        pause = firstPause;
        change({ phase: "open", count: live.count + 1, at: Date.now() });
      }
    } catch (thrown) {
      if (last === null || signal.aborted) throw thrown;
    }
    change({ phase: "waiting" });
    await wait(pause);
    pause = Math.min(pause * 2, longestPause);
  }
}
