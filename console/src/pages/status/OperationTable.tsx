/** GraphQL operations with their times, and the slowest request of each. */

import { useState } from "preact/hooks";
import { type Operation, type Operations, readOperations } from "../../api/metrics.js";
import { type Column, Table } from "../../parts/Table.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { tellClock, tellCount, tellSeconds } from "./figures.js";
import { nothing, quantile } from "./tally.js";

const every = 15_000; // ms
const mostRows = 20;

export function OperationTable() {
  const found = useOperations();
  if (found === null || found.operations.length === 0) return null;
  const { bounds, operations } = found;
  const time = (one: Operation, share: number) => quantile({ ...nothing, times: one.times }, share, bounds);
  const slowness = (one: Operation) => time(one, 0.95) ?? -1;
  const rows = [...operations].sort((a, b) => slowness(b) - slowness(a) || b.count - a.count);
  const columns: readonly Column<Operation>[] = [
    { title: "App", render: ({ app }) => app },
    { title: "Operation", render: ({ operation }) => operation || <span class="soft">unnamed</span> },
    { title: "Count", isNumber: true, render: ({ count }) => tellCount(count) },
    { title: "Failed", isNumber: true, render: ({ failed }) => tellCount(failed) },
    ...[50, 95].map((share) => ({ title: `p${share}`, isNumber: true, render: (one: Operation) => tellSeconds(time(one, share / 100)) })),
    { title: "Slowest", isNumber: true, render: ({ slowest, at }) => (at === 0 ? "–" : <span title={`at ${tellClock(at * 1000)}`}>{tellSeconds(slowest)}</span>) },
    { title: "Slowest request, without literals", render: ({ text }) => <code class="status-text" title={text}>{text}</code> },
  ];
  return (
    <section class="status-section">
      <h2>Operations, slowest first</h2>
      <Table label="Operations, slowest first" columns={columns} rows={rows.slice(0, mostRows)} rowKey={({ app, operation, text }) => JSON.stringify([app, operation, operation === "" ? text : ""])} />
      {rows.length > mostRows && <p class="soft">{rows.length - mostRows} more are not shown.</p>}
    </section>
  );
}

function useOperations(): Operations | null {
  const [found, setFound] = useState<Operations | null>(null);
  useCallerEffect((signal) => {
    const read = async () => {
      const operations = await readOperations(signal).catch(() => null); // the notices of the page report why
      if (signal.aborted) return;
      if (operations !== null) setFound(operations);
      setTimeout(again, every);
    };
    const again = () => {
      if (signal.aborted) return;
      if (document.hidden) setTimeout(again, every);
      else void read();
    };
    void read();
  }, []);
  return found;
}
