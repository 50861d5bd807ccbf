/** Requests and commands with their times, by name. */

import { type Column, Table } from "../../parts/Table.js";
import { tellClock, tellCount, tellRate, tellSeconds } from "./figures.js";
import { type Interval, byMinute, secondsOf, sumOf } from "./record.js";
import { splitNames } from "./snapshot.js";
import { type Bounds, type Tallies, type Tally, quantile, sum } from "./tally.js";

interface TablesProps {
  intervals: readonly Interval[];
  bounds: Bounds;
}

type Row = readonly [name: string, tally: Tally];

const mostRows = 20;

export function Tables({ intervals, bounds }: TablesProps) {
  const seconds = secondsOf(intervals);
  const requests: readonly Column<Row>[] = [
    { title: "Service", render: ([name]) => splitNames(name)[0] },
    { title: "Method", render: ([name]) => splitNames(name)[1] },
    count,
    { title: "Rate", isNumber: true, render: ([, { count }]) => (seconds === 0 ? "–" : tellRate(count / seconds)) },
    { title: "Rejected", isNumber: true, render: ([, { rejected }]) => tellCount(rejected) },
    failed,
    ...times(bounds),
  ];
  const operations: readonly Column<Row>[] = [
    { title: "App", render: ([name]) => splitNames(name)[0] },
    { title: "Operation", render: ([name]) => splitNames(name)[1] },
    count,
    failed,
    ...times(bounds),
  ];
  const commands: readonly Column<Row>[] = [{ title: "Command", render: ([name]) => name }, count, failed, ...times(bounds)];
  const named = sumOf(intervals, "operations");
  return (
    <>
      <Section title="Requests, slowest first" columns={requests} tallies={sumOf(intervals, "requests")} bounds={bounds} none="No requests since then." />
      {named.size > 0 && <Section title="Stored operations, slowest first" columns={operations} tallies={named} bounds={bounds} none="" />}
      <Section title="Commands of the database, slowest first" columns={commands} tallies={sumOf(intervals, "commands")} bounds={bounds} none="No commands since then." />
      <Minutes intervals={intervals} bounds={bounds} />
    </>
  );
}

const count: Column<Row> = { title: "Count", isNumber: true, render: ([, tally]) => tellCount(tally.count) };
const failed: Column<Row> = { title: "Failed", isNumber: true, render: ([, tally]) => tellCount(tally.failed) };

function times<Of>(bounds: Bounds, tallyOf: (row: Of) => Tally = (row) => (row as unknown as Row)[1]): readonly Column<Of>[] {
  return [50, 95, 99].map((share) => ({ title: `p${share}`, isNumber: true, render: (row) => tellSeconds(quantile(tallyOf(row), share / 100, bounds)) }));
}

interface SectionProps {
  title: string;
  columns: readonly Column<Row>[];
  tallies: Tallies;
  bounds: Bounds;
  none: string;
}

function Section({ title, columns, tallies, bounds, none }: SectionProps) {
  const slowness = ([, tally]: Row) => quantile(tally, 0.95, bounds) ?? -1;
  const rows = [...tallies].sort((a, b) => slowness(b) - slowness(a) || b[1].count - a[1].count);
  return (
    <section class="status-section">
      <h2>{title}</h2>
      {rows.length === 0 ? <p class="soft">{none}</p> : <Table label={title} columns={columns} rows={rows.slice(0, mostRows)} rowKey={([name]) => name} />}
      {rows.length > mostRows && <p class="soft">{rows.length - mostRows} more are not shown.</p>}
    </section>
  );
}

type Minute = readonly [minute: number, intervals: readonly Interval[]];

/** The charts as a table, for users who cannot see them. */
function Minutes({ intervals, bounds }: TablesProps) {
  const total = ([, ones]: Minute) => sum(sumOf(ones, "requests"));
  const columns: readonly Column<Minute>[] = [
    { title: "Minute", render: ([minute]) => tellClock(minute, false) },
    { title: "Requests", isNumber: true, render: (row) => tellCount(total(row).count) },
    { title: "Rejected", isNumber: true, render: (row) => tellCount(total(row).rejected) },
    { title: "Failed", isNumber: true, render: (row) => tellCount(total(row).failed) },
    ...times<Minute>(bounds, total),
    { title: "In flight, at most", isNumber: true, render: ([, ones]) => tellCount(Math.max(...ones.map((one) => one.inFlight))) },
    { title: "Ping, at most", isNumber: true, render: ([, ones]) => tellSeconds(longestPing(ones)) },
  ];
  return (
    <details class="status-section">
      <summary>The charts as a table</summary>
      <Table label="The charts as a table" columns={columns} rows={byMinute(intervals)} rowKey={([minute]) => minute} />
    </details>
  );
}

function longestPing(intervals: readonly Interval[]): number | null {
  const pings = intervals.flatMap((one) => (one.pingMs === null ? [] : [one.pingMs / 1000]));
  return pings.length === 0 ? null : Math.max(...pings);
}
