/** Figures as people read them. */

export function tellSeconds(seconds: number | null): string {
  if (seconds === null) return "–";
  if (seconds === Infinity) return "> 30 s";
  if (seconds >= 1) return `${round(seconds)} s`;
  return `${round(seconds * 1000)} ms`;
}

export function tellRate(perSecond: number | null): string {
  return perSecond === null ? "–" : `${round(perSecond)} /s`;
}

export function tellCount(count: number): string {
  return Math.round(count).toLocaleString("en");
}

export function tellShare(part: number, whole: number): string {
  return whole === 0 ? "–" : `${round((part / whole) * 100)} %`;
}

/** Two digits that count, and all before the point. */
function round(value: number): string {
  if (value === 0) return "0";
  if (value >= 10) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(2)));
}

/** When it was, to the second or to the minute. */
export function tellClock(ms: number, withSeconds = true): string {
  const time = new Date(ms).toLocaleTimeString("en-GB");
  return withSeconds ? time : time.slice(0, 5);
}

/** Values between two gaps: no line leads to them, so they are drawn as points. */
export function findIsolated(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((one, at) => (one != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
}

/** When it was, with the day unless it is today. */
export function tellMoment(ms: number): string {
  const day = new Date(ms).toLocaleDateString("en-CA");
  return day === new Date().toLocaleDateString("en-CA") ? tellClock(ms) : `${day} ${tellClock(ms, false)}`;
}

/** With several workers, their parent is one of the processes. */
export function tellProcesses(count: number): string {
  return count <= 1 ? "one process" : `${tellCount(count - 1)} workers`;
}
