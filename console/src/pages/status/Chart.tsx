/** Lines over the last minutes, drawn by uPlot; their values are next to them as text. */

import uPlot from "uplot";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { findIsolated, tellClock } from "./figures.js";

export interface Line {
  readonly label: string;
  /** The name of a colour among the tokens of the style. */
  readonly colour: "--accent" | "--soft" | "--bad";
  readonly dash?: readonly number[];
  readonly values: readonly (number | null)[];
  /** Nothing is drawn while there is nothing but 0. */
  readonly isRare?: boolean;
}

interface ChartProps {
  title: string;
  /** ms, when each value was. */
  times: readonly number[];
  lines: readonly Line[];
  tell: (value: number | null) => string;
  /** How far the scale reaches at least. */
  least: number;
  isWhole?: boolean;
}

const height = 150;
const shortest = 2 * 60; // seconds that a chart spans at least

const wholeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

export function Chart({ title, times, lines, tell, least, isWhole = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const id = useId();
  const [pointed, setPointed] = useState<number | null>(null);
  const scheme = useScheme();
  const data: uPlot.AlignedData = [times.map((one) => one / 1000), ...lines.map(valuesToDraw)];
  const latest = useRef(data);
  latest.current = data;
  useLayoutEffect(() => {
    const host = box.current;
    if (host === null) return undefined;
    const drawn = new uPlot(options(host.clientWidth, { lines, tell, least, isWhole }, setPointed), latest.current, host);
    plot.current = drawn;
    const watcher = new ResizeObserver(() => drawn.setSize({ width: host.clientWidth, height }));
    watcher.observe(host);
    return () => {
      watcher.disconnect();
      drawn.destroy();
    };
  }, [scheme, lines.length]);
  useEffect(() => plot.current?.setData(latest.current), [times]);
  const at = pointed !== null && pointed < times.length ? pointed : times.length - 1;
  return (
    <figure class="status-chart" aria-labelledby={id}>
      <figcaption id={id}>
        <span class="status-chart-title">{title}</span>
        <span class="soft">{pointed !== null && times[at] !== undefined ? tellClock(times[at]) : "now"}</span>
      </figcaption>
      <ul class="status-legend" aria-label={`${title} now`}>
        {lines.map((line) => (
          <li key={line.label}>
            <svg width="18" height="8" aria-hidden="true" class={`status-key status-key${line.colour}`}><line x1="0" y1="4" x2="18" y2="4" stroke-dasharray={line.dash?.join(" ")} /></svg>
            {line.label} <strong>{tell(line.values[at] ?? null)}</strong>
          </li>
        ))}
      </ul>
      <div ref={box} class="status-plot" aria-hidden="true" />
    </figure>
  );
}

/** A time longer than any bucket is not drawn. */
function valuesToDraw({ values, isRare }: Line): (number | null)[] {
  const isQuiet = isRare && values.every((one) => !one);
  return values.map((one) => (one !== null && Number.isFinite(one) && !isQuiet ? one : null));
}

function options(width: number, { lines, tell, least, isWhole }: Omit<ChartProps, "title" | "times">, onPoint: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width,
    height,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: (_, from, to) => [Math.min(from, to - shortest), to] },
      y: { range: (_, __, most) => [0, Math.max((most ?? 0) * 1.1, least)] },
    },
    axes: [
      { ...axis, size: 26, space: 70, values: (_, ticks) => ticks.map((one) => tellClock(one * 1000, false)), incrs: [60, 120, 300] },
      { ...axis, size: 64, space: 40, values: (_, ticks) => ticks.map(tell), ...(isWhole ? { incrs: wholeSteps } : {}) },
    ],
    series: [{}, ...lines.map((line) => ({ stroke: colour(line.colour), width: 1.5, points: { show: true, size: 5, fill: colour(line.colour), filter: (drawn: uPlot, series: number) => findIsolated(drawn.data[series] as readonly (number | null)[]) }, spanGaps: false, ...(line.dash ? { dash: [...line.dash] } : {}) }))],
    hooks: { setCursor: [(drawn) => onPoint(drawn.cursor.idx ?? null)] },
  };
}

/** Light or dark: what is drawn has to be drawn again. */
function useScheme(): boolean {
  const query = "(prefers-color-scheme: dark)";
  const [isDark, setDark] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const look = () => setDark(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return isDark;
}
