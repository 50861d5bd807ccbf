/** Numbers for people. */

export function describeMs(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 10) return `${Math.round(ms)} ms`;
  return `${ms.toFixed(ms >= 1 ? 1 : 2)} ms`;
}

export function describeBytes(bytes: number): string {
  if (bytes >= 1 << 20) return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  if (bytes >= 1 << 10) return `${(bytes / (1 << 10)).toFixed(1)} KiB`;
  return `${bytes} B`;
}

export function describeCount(count: number): string {
  return count.toLocaleString("en");
}

/** `1 document`, `2 documents`. */
export function countOf(count: number, what: string): string {
  return `${describeCount(count)} ${what}${count === 1 ? "" : "s"}`;
}
