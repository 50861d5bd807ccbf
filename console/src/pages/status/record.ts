/** What happened between one reading of the metrics and the next, for the last minutes. */

import type { History } from "../../api/metrics.js";
import { type Snapshot, takeSnapshot } from "./snapshot.js";
import { type Tallies, subtract, sumByName } from "./tally.js";

export interface Interval {
  readonly from: number;
  readonly to: number;
  readonly requests: Tallies;
  readonly commands: Tallies;
  readonly operations: Tallies;
  readonly cache: Tallies;
  readonly troubles: Tallies;
  readonly inFlight: number;
  readonly pingMs: number | null;
}

export interface Recording {
  readonly last: Snapshot | null;
  readonly intervals: readonly Interval[];
  /** When the metrics restarted: the server was restarted, or another instance answered. */
  readonly begunAnewAt: number | null;
}

export const longest = 30 * 60_000; // ms that are kept, here and by the server
export const emptyRecording: Recording = { last: null, intervals: [], begunAnewAt: null };

export function record(recording: Recording, next: Snapshot): Recording {
  const { last } = recording;
  if (last === null) return { ...recording, last: next };
  const interval = last.startedAt === next.startedAt ? compare(last, next) : null;
  if (interval === null) return { ...recording, last: next, begunAnewAt: next.at };
  const intervals = [...recording.intervals, interval].filter((one) => one.to > next.at - longest);
  return { ...recording, last: next, intervals };
}

/** What the server has recorded before the page was opened. */
export function recordHistory({ points }: Pick<History, "points">): Recording {
  return points.reduce((recording, { at, samples }) => record(recording, takeSnapshot(at, samples, null, 0)), emptyRecording);
}

function compare(last: Snapshot, next: Snapshot): Interval | null {
  const requests = subtract(next.requests, last.requests);
  const commands = subtract(next.commands, last.commands);
  const operations = subtract(next.operations, last.operations);
  const cache = subtract(next.cache, last.cache);
  const troubles = subtract(next.troubles, last.troubles);
  if (requests === null || commands === null || operations === null || cache === null || troubles === null || next.at <= last.at) return null;
  return { from: last.at, to: next.at, requests, commands, operations, cache, troubles, inFlight: next.inFlight, pingMs: next.health?.isUp ? next.health.ms : null };
}

/** The intervals of the last so many ms. */
export function recent(intervals: readonly Interval[], ms: number): readonly Interval[] {
  const end = intervals[intervals.length - 1]?.to ?? 0;
  return intervals.filter((one) => one.to > end - ms);
}

export function secondsOf(intervals: readonly Interval[]): number {
  return intervals.reduce((all, one) => all + (one.to - one.from) / 1000, 0);
}

export function sumOf(intervals: readonly Interval[], what: "requests" | "commands" | "operations" | "cache" | "troubles"): Tallies {
  return sumByName(intervals.map((one) => one[what]));
}

/** Intervals by the minute in which they end, the newest minute first. */
export function byMinute(intervals: readonly Interval[]): readonly (readonly [minute: number, readonly Interval[]])[] {
  const found = new Map<number, Interval[]>();
  for (const one of intervals) {
    const minute = Math.floor(one.to / 60_000) * 60_000;
    const known = found.get(minute);
    if (known === undefined) found.set(minute, [one]);
    else known.push(one);
  }
  return [...found].reverse();
}
