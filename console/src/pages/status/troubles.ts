/** Counters of faults, and how much they have increased. */

import type { Interval } from "./record.js";
import { troubles } from "./snapshot.js";
import { sum } from "./tally.js";

export interface Trouble {
  readonly name: string;
  readonly what: string;
  readonly count: number;
  /** ms, the end of the last interval in which it happened. */
  readonly last: number;
}

export function findTroubles(intervals: readonly Interval[]): readonly Trouble[] {
  const failed = intervals.map(({ requests, to }) => ({ count: sum(requests).failed, to }));
  const all = [
    { name: "failed", what: "request{/s} failed (5xx)", parts: failed },
    ...Object.entries(troubles).map(([name, what]) => ({ name, what, parts: intervals.map((one) => ({ count: one.troubles.get(name)?.count ?? 0, to: one.to })) })),
  ];
  return all.flatMap(({ name, what, parts }) => {
    const moved = parts.filter((one) => one.count > 0);
    const count = moved.reduce((sum, one) => sum + one.count, 0);
    return moved.length === 0 ? [] : [{ name, what: inflect(what, count), count, last: moved[moved.length - 1]!.to }];
  });
}

/** The text for this number: `request{/s}` is "request" or "requests". */
export function inflect(text: string, count: number): string {
  return text.replace(/\{([^/}]*)\/([^}]*)\}/g, (_, one: string, many: string) => (count === 1 ? one : many));
}
