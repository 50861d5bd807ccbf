/** The last minutes, drawn. */

import { Chart } from "./Chart.js";
import { tellCount, tellRate, tellSeconds } from "./figures.js";
import type { Interval } from "./record.js";
import { type Bounds, quantile, sum } from "./tally.js";

export function Charts({ intervals, bounds }: { intervals: readonly Interval[]; bounds: Bounds }) {
  const times = intervals.map((one) => one.to);
  const totals = intervals.map((one) => ({ ...sum(one.requests), seconds: (one.to - one.from) / 1000 }));
  const rate = (pick: (one: (typeof totals)[number]) => number) => totals.map((one) => pick(one) / one.seconds);
  const share = (wanted: number) => totals.map((one) => quantile(one, wanted, bounds));
  const commands = intervals.map((one) => quantile(sum(one.commands), 0.95, bounds));
  return (
    <div class="status-charts">
      <Chart title="Requests" times={times} tell={tellRate} least={1} lines={[
        { label: "all", colour: "--accent", values: rate((one) => one.count) },
        { label: "rejected (4xx)", colour: "--soft", dash: [4, 3], values: rate((one) => one.rejected) },
        { label: "failed (5xx)", colour: "--bad", isRare: true, values: rate((one) => one.failed) },
      ]} />
      <Chart title="Time of a request" times={times} tell={tellSeconds} least={0.005} lines={[
        { label: "p50", colour: "--accent", values: share(0.5) },
        { label: "p95", colour: "--accent", dash: [6, 3], values: share(0.95) },
        { label: "p99", colour: "--soft", dash: [2, 3], values: share(0.99) },
      ]} />
      <Chart title="In flight" times={times} least={4} isWhole tell={(value) => (value === null ? "–" : tellCount(value))} lines={[
        { label: "requests", colour: "--accent", values: intervals.map((one) => one.inFlight) },
      ]} />
      <Chart title="Time of the database" times={times} tell={tellSeconds} least={0.005} lines={[
        { label: "commands p95", colour: "--accent", values: commands },
        { label: "ping", colour: "--soft", dash: [4, 3], values: intervals.map((one) => (one.pingMs === null ? null : one.pingMs / 1000)) },
      ]} />
    </div>
  );
}
