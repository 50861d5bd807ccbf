/** The schema of a sample: fields, types, missing values, examples and distributions. */

import { useMemo, useState } from "preact/hooks";
import { type Sample, type Segments, readSample } from "../../api/data.js";
import { Button, Empty, Loading } from "../../parts/basic.js";
import { type Column, Table } from "../../parts/Table.js";
import type { Spot } from "./places.js";
import { Refusal } from "./Refusal.js";
import { type FieldSummary, summarize } from "./summary.js";
import { useCallerEffect } from "./useCallerEffect.js";

type Found = { readonly sample: Sample } | { readonly error: unknown } | null;

const columns: readonly Column<FieldSummary>[] = [
  { title: "Field", render: ({ path }) => <code>{path}</code> },
  { title: "Types", render: ({ types, count }) => types.map(([type, some]) => <div key={type}>{type} {types.length > 1 && <span class="soft">{tellShare(some, count)}</span>}</div>) },
  { title: "Missing", isNumber: true, render: ({ missing }) => (missing === null ? "" : missing.count === 0 ? <span class="soft">0 %</span> : tellShare(missing.count, missing.of)) },
  { title: "Examples", render: ({ examples }) => examples.map((one, index) => <div key={index} class="data-example">{one === "" ? '""' : one}</div>) },
  { title: "Values", render: (summary) => <Spread summary={summary} /> },
];

export function Schema({ segments, spot: { filter } }: { segments: Segments; spot: Spot }) {
  const [found, setFound] = useState<Found>(null);
  const [attempt, setAttempt] = useState(0);
  useCallerEffect((signal) => {
    setFound(null);
    readSample(segments, filter, signal).then(
      (sample) => setFound({ sample }),
      (error: unknown) => signal.aborted || setFound({ error }),
    );
  }, [filter, attempt]);
  const summary = useMemo(() => (found !== null && "sample" in found ? summarize(found.sample.documents) : []), [found]);
  const again = <Button onClick={() => setAttempt(attempt + 1)}>Read again</Button>;
  if (found === null) return <Loading what="Reading a sample" />;
  if ("error" in found) return <div class="data-indexes"><Refusal error={found.error} title="The documents could not be read" /><div>{again}</div></div>;
  const { documents, isWhole } = found.sample;
  if (documents.length === 0) return <Empty title={filter.trim() === "" ? "No documents yet" : "Nothing matches the filter"} />;
  const count = `${documents.length.toLocaleString("en")} ${documents.length === 1 ? "document" : "documents"}`;
  return (
    <div class="data-indexes data-schema">
      <div class="data-head">
        <p class="soft data-schema-note">{isWhole ? `All ${count}` : `A sample of ${count}: the newest and the oldest`}{filter.trim() !== "" && <> that match <code>{filter}</code></>}.</p>
        {again}
      </div>
      <Table label="Schema of the sample" columns={columns} rows={summary} rowKey={({ path }) => path} />
    </div>
  );
}

function tellShare(part: number, whole: number): string {
  const share = (part / whole) * 100;
  return share > 0 && share < 1 ? "< 1 %" : `${Math.round(share)} %`;
}

/** Bars: of ranges beside each other, of values below each other. */
function Spread({ summary: { bars, isRange, path, examples } }: { summary: FieldSummary }) {
  if (bars.length === 0) return examples.length > 1 ? <span class="soft">all different</span> : null;
  const most = Math.max(...bars.map((one) => one.count));
  if (!isRange) {
    return (
      <ul class="data-bars" aria-label={`Most frequent values of ${path}`}>
        {bars.map(({ label, count }) => (
          <li key={label}>
            <svg class="data-bar" width="60" height="10" aria-hidden="true"><rect width={Math.max(1, (60 * count) / most)} height="10" /></svg>
            <span class="data-example">{label === "" ? '""' : label}</span> <span class="soft">{count.toLocaleString("en")}</span>
          </li>
        ))}
      </ul>
    );
  }
  const [width, height] = [14, 32];
  return (
    <>
      <svg class="data-bar" role="img" aria-label={`Values of ${path}: ${bars.map(({ label, count }) => `${label}: ${count}`).join("; ")}`} width={width * bars.length} height={height}>
        {bars.map(({ label, count }, at) => {
          const tall = count === 0 ? 0 : Math.max(1, (height * count) / most);
          return <rect key={label} x={at * width} y={height - tall} width={width - 2} height={tall}><title>{label}: {count}</title></rect>;
        })}
      </svg>
      <div class="soft data-ends"><span>{bars[0]?.label.split(" to ")[0]}</span><span>{bars[bars.length - 1]?.label.split(" to ")[1]}</span></div>
    </>
  );
}
