/** The numbers of a list as bars or as a line, drawn by uPlot, with a summary in words. */

import uPlot from "uplot";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type ChartList, type Points, format, mostPoints, readPoints, summarize } from "./chart.js";
import { describeCount } from "./figures.js";

type Kind = "bar" | "line";

const height = 320;
const byNumber = ""; // rows without a column that names them

export default function AnswerChart({ charts }: { charts: readonly ChartList[] }) {
  const [kind, setKind] = useState<Kind>("bar");
  const [chosen, setChosen] = useState("");
  const list = charts.find((one) => one.name === chosen) ?? charts[0]!;
  const [column, setColumn] = useState("");
  const [label, setLabel] = useState<string | null>(null);
  const value = list.numbers.includes(column) ? column : list.numbers[0]!;
  const names = list.labels.filter((one) => one !== value);
  const naming = label !== null && (label === byNumber || names.includes(label)) ? label : (names[0] ?? byNumber);
  const points = useMemo(() => readPoints(list, naming === byNumber ? null : naming, value), [list, naming, value]);
  return (
    <div class="answer-chart">
      <div class="answer-chart-choices">
        <div class="answer-ways" role="group" aria-label="Draw">
          {(["bar", "line"] as const).map((one) => (
            <button key={one} type="button" class="answer-way" aria-pressed={one === kind} onClick={() => setKind(one)}>{one === "bar" ? "Bars" : "Line"}</button>
          ))}
        </div>
        {charts.length > 1 && <Choice label="List" value={list.name} options={charts.map((one) => one.name)} onChoose={setChosen} />}
        <Choice label="Value" value={value} options={list.numbers} onChoose={setColumn} />
        <Choice label="By" value={naming} options={[...names, byNumber]} onChoose={setLabel} />
      </div>
      <Drawing kind={kind} points={points} column={value} />
      {list.rows.length > mostPoints && <p class="soft answer-note">The first {describeCount(mostPoints)} of {describeCount(list.rows.length)} rows are drawn.</p>}
    </div>
  );
}

function Choice({ label, value, options, onChoose }: { label: string; value: string; options: readonly string[]; onChoose: (value: string) => void }) {
  const id = useId();
  return (
    <div class="answer-list">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map((one) => <option key={one} value={one}>{one === byNumber ? "row number" : one}</option>)}
      </select>
    </div>
  );
}

function Drawing({ kind, points, column }: { kind: Kind; points: Points; column: string }) {
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const isDark = useScheme();
  const [pointed, setPointed] = useState<number | null>(null);
  useLayoutEffect(() => {
    const host = box.current;
    if (host === null) return undefined;
    const drawn = new uPlot(options(host.clientWidth, kind, points, setPointed), [points.labels.map((_, index) => index), [...points.values]], host);
    const watcher = new ResizeObserver(() => drawn.setSize({ width: host.clientWidth, height }));
    watcher.observe(host);
    return () => {
      watcher.disconnect();
      drawn.destroy();
    };
  }, [kind, points, isDark]);
  const at = pointed !== null && pointed < points.values.length ? pointed : null;
  const here = at === null ? null : points.values[at];
  return (
    <figure class="answer-figure" aria-labelledby={id}>
      <figcaption id={id}>{summarize(points, column)}</figcaption>
      <div ref={box} class="answer-plot" aria-hidden="true" />
      <p class="soft answer-pointed" aria-hidden="true">{at === null ? "" : `${points.labels[at]}: ${here === null || here === undefined ? "no value" : format(here)}`}</p>
    </figure>
  );
}

function options(width: number, kind: Kind, { labels }: Points, onPoint: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const last = labels.length - 1;
  const name = (at: number) => (Number.isInteger(at) ? shorten(labels[at] ?? "") : "");
  const widest = Math.max(...labels.map((one) => shorten(one).length)) * 7 + 14; // px
  const bars = kind === "bar" && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.7, 60] }), fill: colour("--accent"), points: { show: false } } : { points: { show: last < 60, size: 6 } };
  return {
    width,
    height,
    padding: [10, 16, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false, range: () => [-0.6, last + 0.6] }, y: { range: (_, least, most) => spread(least, most) } },
    axes: [
      { ...axis, grid: { show: false }, size: 34, space: widest, incrs: [1, 2, 5, 10, 20, 50, 100], values: (_, ticks) => ticks.map(name) },
      { ...axis, size: 76, values: (_, ticks) => ticks.map(format) },
    ],
    series: [{}, { stroke: colour("--accent"), width: kind === "bar" ? 0 : 2, spanGaps: false, ...bars }],
    hooks: { setCursor: [(drawn) => onPoint(drawn.cursor.idx ?? null)] },
  };
}

/** Bars begin at 0. */
function spread(least: number | null, most: number | null): [number, number] {
  const [low, high] = [Math.min(least ?? 0, 0), Math.max(most ?? 0, 0)];
  const room = (high - low) * 0.05 || 1;
  return [low === 0 ? 0 : low - room, high === 0 && low < 0 ? 0 : high + room];
}

function shorten(text: string): string {
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

/** Light or dark: what is drawn has to be drawn again. */
function useScheme(): boolean {
  const query = "(prefers-color-scheme: dark)";
  const [isDark, setDark] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const change = () => setDark(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return isDark;
}
