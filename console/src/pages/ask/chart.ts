/** Which lists of an answer can be drawn, and what of them. */

import { Numeral } from "../../parts/json.js";
import { type List, cellOf, findColumns, findLists, ownOf } from "./lists.js";

/** A list with at least one column of numbers. */
export interface ChartList {
  readonly name: string;
  readonly rows: readonly unknown[];
  readonly numbers: readonly string[];
  /** Columns that can name the rows. */
  readonly labels: readonly string[];
}

export interface Points {
  readonly labels: readonly string[];
  readonly values: readonly (number | null)[];
}

export const mostPoints = 500;
const mostRowsChecked = 200;

/** The lists that can be drawn, outermost first. */
export function findCharts(data: unknown): readonly ChartList[] {
  return findLists(data).flatMap((list) => describe(list) ?? []);
}

function describe({ name, rows }: List): ChartList | null {
  const { names } = findColumns(rows);
  const checked = rows.slice(0, mostRowsChecked);
  const numbers = names.filter((column) => isNumeric(checked, column));
  if (numbers.length === 0 || rows.length < 2) return null;
  // An id is a number that names a row; it is drawn only if there is nothing else.
  const ids = numbers.filter((column) => /(^|\.)_?id$/i.test(column));
  const ordered = [...numbers.filter((column) => !ids.includes(column)), ...ids];
  return { name, rows, numbers: ordered, labels: [...names.filter((column) => !numbers.includes(column)), ...ids, ...numbers.filter((column) => !ids.includes(column))] };
}

function isNumeric(rows: readonly unknown[], column: string): boolean {
  const values = rows.map((row) => valueOf(row, column)).filter((one) => one !== null && one !== undefined);
  return values.length > 0 && values.every((one) => typeof one === "number" || one instanceof Numeral);
}

/** The value of a column, which may be in an object inside the row. */
function valueOf(row: unknown, column: string): unknown {
  if (typeof row !== "object" || row === null) return column === "value" ? row : null;
  const fields = row as Readonly<Record<string, unknown>>;
  if (Object.hasOwn(fields, column)) return fields[column];
  const dot = column.indexOf(".");
  const inner = dot === -1 ? null : ownOf(fields, column.slice(0, dot));
  return typeof inner === "object" && inner !== null ? ownOf(inner as Readonly<Record<string, unknown>>, column.slice(dot + 1)) : null;
}

/** The points of a column, in the order of the answer; a missing value is a gap. */
export function readPoints({ rows }: ChartList, label: string | null, column: string): Points {
  const shown = rows.slice(0, mostPoints);
  return {
    labels: shown.map((row, index) => (label === null ? String(index + 1) : cellOf(row, label))),
    values: shown.map((row) => {
      const value = valueOf(row, column);
      return value === null || value === undefined ? null : Number(value instanceof Numeral ? value.text : value);
    }),
  };
}

/** What the drawing shows, in words. */
export function summarize({ labels, values }: Points, column: string): string {
  const known = values.flatMap((value, index) => (value === null ? [] : [{ value, label: labels[index] ?? "" }]));
  if (known.length === 0) return `${column} has no values`;
  const ordered = [...known].sort((one, other) => one.value - other.value);
  const [least, most] = [ordered[0]!, ordered[ordered.length - 1]!];
  return `${column}: ${known.length} values, from ${format(least.value)} (${least.label}) to ${format(most.value)} (${most.label})`;
}

export function format(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 6 });
}
