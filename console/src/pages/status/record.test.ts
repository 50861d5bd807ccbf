import assert from "node:assert/strict";
import { test } from "node:test";
import { unfold } from "../../api/metrics.js";
import { findIsolated } from "./figures.js";
import { recordHistory, sumOf } from "./record.js";
import { troubles } from "./snapshot.js";
import { findTroubles, inflect } from "./troubles.js";

const asked = 'docgraph_http_requests_total{method="GET",service="mongo",status="200"}';
const failed = 'docgraph_http_requests_total{method="GET",service="mongo",status="500"}';
const lost = "docgraph_workers_lost_total";
const points: readonly { at: number; values: Record<string, number> }[] = [
  { at: 1000, values: { docgraph_start_time_seconds: 5, [asked]: 1, [lost]: 2 } },
  { at: 1030, values: { [asked]: 4 } },
  { at: 1060, values: { [failed]: 2, [lost]: 3 } },
];

test("points that have only what changed are unfolded", () => {
  const unfolded = unfold(points, 500);
  assert.deepEqual(unfolded.map((one) => one.at), [1_000_500, 1_030_500, 1_060_500]);
  assert.deepEqual(unfolded.map((one) => one.samples.length), [3, 3, 4]);
  assert.deepEqual(unfolded[1]?.samples.map((one) => one.value), [5, 4, 2]);
  assert.equal(unfolded[0]?.samples[1]?.labels["service"], "mongo");
});

test("the history is recorded as if the page had been open", () => {
  const { intervals, last, begunAnewAt } = recordHistory({ points: unfold(points, 0) });
  assert.deepEqual(intervals.map(({ from, to }) => to - from), [30_000, 30_000]);
  assert.equal(last?.at, 1_060_000);
  assert.equal(begunAnewAt, null);
  assert.deepEqual([...sumOf(intervals, "requests").values()].map(({ count, failed: some }) => [count, some]), [[5, 2]]);
});

test("counters that should stay still are alerts when they move", () => {
  const { intervals } = recordHistory({ points: unfold(points, 0) });
  assert.deepEqual(findTroubles(intervals).map(({ name, count, last }) => [name, count, last]), [["failed", 2, 1_060_000], [lost, 1, 1_060_000]]);
  assert.deepEqual(findTroubles(intervals.slice(0, 1)), []);
});

test("points are drawn where no line leads", () => {
  assert.deepEqual(findIsolated([1, null, 2, 3, null, 4]), [0, 5]);
  assert.deepEqual(findIsolated([null, 0, null]), [1]);
});

test("one fault and several have words that fit", () => {
  assert.equal(inflect("request{/s} {was/were} rejected", 1), "request was rejected");
  assert.equal(inflect("request{/s} {was/were} rejected", 2), "requests were rejected");
  for (const text of Object.values(troubles)) assert.doesNotMatch(inflect(text, 1), /[{}]/);
});
