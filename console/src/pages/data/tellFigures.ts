/** How large something is, in words. */

import type { Figures } from "../../api/data.js";

const units = ["B", "kB", "MB", "GB", "TB"];

export function tellFigures({ count, bytes, indexes }: Figures, what: "document" | "collection"): readonly string[] {
  return [
    ...(count === null ? [] : [tellMany(count, what, `${what}s`)]),
    ...(bytes === null ? [] : [tellBytes(bytes)]),
    ...(indexes === null ? [] : [tellMany(indexes, "index", "indexes")]),
  ];
}

function tellMany(count: number, one: string, many: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function tellBytes(bytes: number): string {
  const unit = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** unit;
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${units[unit]}`;
}
