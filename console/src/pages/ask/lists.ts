/** The lists of objects in an answer, as rows and columns. */

import { isObject } from "../../api/graphql.js";
import { Numeral } from "../../parts/json.js";
import { countOf } from "./figures.js";

export interface List {
  readonly name: string;
  readonly rows: readonly unknown[];
}

const mostLists = 30;
const deepestList = 6;
const mostColumns = 60;
const mostRowsLookedAt = 200; // for the names of columns
const mostVisited = 2000; // values that are searched for lists

/** Lists in which objects are, outermost first, by their paths. */
export function findLists(data: unknown): readonly List[] {
  const found: List[] = [];
  let visited = 0;
  let level: { name: string; value: unknown }[] = [{ name: "", value: data }];
  for (let depth = 0; depth <= deepestList && level.length > 0; depth += 1) {
    const next: typeof level = [];
    for (const { name, value } of level) {
      visited += 1;
      if (visited > mostVisited || found.length >= mostLists) return found;
      if (Array.isArray(value)) {
        if (value.some(isRow)) found.push({ name: name || "data", rows: value });
        const first = value.slice(0, 20).map((one, index) => ({ name: `${name}[${index}]`, value: one as unknown }));
        next.push(...first);
      } else if (isRow(value)) {
        const members = Object.entries(value).filter(([, one]) => typeof one === "object");
        next.push(...members.map(([key, one]) => ({ name: name ? `${name}.${key}` : key, value: one })));
      }
    }
    level = next;
  }
  return found;
}

function isRow(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !(value instanceof Numeral);
}

export interface Columns {
  readonly names: readonly string[];
  /** How many columns there is no room for. */
  readonly left: number;
}

/** The names of the columns: fields of the rows, and those of objects in them. */
export function findColumns(rows: readonly unknown[]): Columns {
  const all = allColumns(rows.slice(0, mostRowsLookedAt));
  return { names: all.slice(0, mostColumns), left: Math.max(0, all.length - mostColumns) };
}

export function allColumns(rows: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  for (const row of rows) for (const name of namesIn(row)) names.add(name);
  return [...names].filter((name) => !isParent(name, names));
}

/** `author` needs no column where `author.name` has one. */
function isParent(name: string, names: ReadonlySet<string>): boolean {
  for (const other of names) if (other.startsWith(`${name}.`)) return true;
  return false;
}

function* namesIn(row: unknown): Generator<string> {
  if (!isRow(row)) {
    yield "value";
    return;
  }
  for (const [name, value] of Object.entries(row)) {
    if (!isRow(value)) yield name;
    else for (const below of Object.keys(value)) yield `${name}.${below}`;
  }
}

const longestCell = 200; // characters

/** The text of a cell. */
export function cellOf(row: unknown, column: string): string {
  return render(valueOf(row, column));
}

/** The value that a row has in a column. */
export function valueOf(row: unknown, column: string): unknown {
  if (!isRow(row)) return column === "value" ? row : undefined;
  if (Object.hasOwn(row, column)) return row[column];
  const dot = column.indexOf(".");
  const above = dot === -1 ? undefined : ownOf(row, column.slice(0, dot));
  return isRow(above) ? ownOf(above, column.slice(dot + 1)) : above;
}

/** The value of a field; none for what every object has, such as `constructor`. */
export function ownOf(row: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(row, name) ? row[name] : undefined;
}

function render(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) {
    const isPlain = value.length <= 5 && value.every((one) => typeof one !== "object");
    return isPlain ? cut(value.join(", ")) : countOf(value.length, "item");
  }
  if (value instanceof Numeral) return cut(value.text);
  return cut(typeof value === "string" ? value : JSON.stringify(value));
}

function cut(text: string): string {
  return text.length > longestCell ? `${text.slice(0, longestCell)}…` : text;
}
