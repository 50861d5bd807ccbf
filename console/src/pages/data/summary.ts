/** Schema summary of a sample: the fields, with types, missing values, examples and distribution. */

import { nameType } from "../../api/retype.js";
import { tellFarDate } from "../../api/scalars.js";
import { type Fields, type Value, isFields } from "../../api/typed.js";
import { Scalar } from "../../parts/json.js";

export interface Bar {
  readonly label: string;
  readonly count: number;
}

export interface FieldSummary {
  /** Such as `author.name`; `tags[]` are the elements of a list. */
  readonly path: string;
  /** The most frequent first. */
  readonly types: readonly (readonly [type: string, count: number])[];
  readonly count: number;
  /** Of the objects that could have the field; null for elements of lists. */
  readonly missing: { readonly count: number; readonly of: number } | null;
  readonly examples: readonly string[];
  /** Ranges of numbers and dates, or the most frequent values; empty where all values differ. */
  readonly bars: readonly Bar[];
  /** The bars are ranges: their order is that of the values. */
  readonly isRange: boolean;
}

interface Found {
  readonly types: Map<string, number>;
  readonly texts: Map<string, number>;
  readonly numbers: number[];
  readonly dates: number[];
  count: number;
}

const mostFields = 500;
const mostLevels = 8;
const mostTexts = 2000; // different values that are counted
const mostExamples = 3;
const mostBars = 5;
const ranges = 10;
const manyDigits = 1e15; // such numbers have an exponent
const longest = 60; // characters of an example

/** Summarize each field; `[]` in a path means the elements of a list. */
export function summarize(documents: readonly Fields[]): readonly FieldSummary[] {
  const found = new Map<string, Found>();
  const objects = new Map<string, number>();
  for (const document of documents) addFields(document, "", found, objects, 0);
  return [...found].map(([path, one]) => describe(path, one, objects.get(parentOf(path)) ?? documents.length));
}

/** The names that a filter can have, with their types. */
export function namesOf(summary: readonly FieldSummary[]): ReadonlyMap<string, string> {
  const fields = summary.filter(({ path }) => !path.endsWith("[]"));
  return new Map(fields.map(({ path, types }) => [path.replaceAll("[]", ""), types.map(([type]) => type).join(", ")]));
}

function addFields(fields: Fields, prefix: string, found: Map<string, Found>, objects: Map<string, number>, level: number): void {
  objects.set(prefix, (objects.get(prefix) ?? 0) + 1);
  for (const [name, value] of fields) addValue(value, prefix === "" ? name : `${prefix}.${name}`, found, objects, level);
}

function addValue(value: Value, path: string, found: Map<string, Found>, objects: Map<string, number>, level: number): void {
  if (!found.has(path) && found.size >= mostFields) return;
  const one = found.get(path) ?? { types: new Map<string, number>(), texts: new Map<string, number>(), numbers: [], dates: [], count: 0 };
  found.set(path, one);
  one.count += 1;
  const type = nameType(value);
  one.types.set(type, (one.types.get(type) ?? 0) + 1);
  if (level >= mostLevels) return;
  if (isFields(value)) addFields(value, path, found, objects, level + 1);
  else if (Array.isArray(value)) for (const element of value as readonly Value[]) addValue(element, `${path}[]`, found, objects, level + 1);
  else addScalar(value as Exclude<Value, Fields | readonly Value[]>, one);
}

function addScalar(value: null | boolean | string | Scalar, one: Found): void {
  if (value === null) return;
  if (value instanceof Scalar && /^(Int|Double|Decimal)/.test(value.type)) pushFinite(one.numbers, Number(value.text));
  if (value instanceof Scalar && value.type === "Date") pushFinite(one.dates, Number(value.key));
  const text = typeof value === "string" ? `"${value}` : String(value); // the text "1" is not the number 1
  if (one.texts.has(text) || one.texts.size < mostTexts) one.texts.set(text, (one.texts.get(text) ?? 0) + 1);
}

function pushFinite(numbers: number[], value: number): void {
  if (Number.isFinite(value)) numbers.push(value);
}

/** The object that a field is in, as a path; empty: the document. */
function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf(".")));
}

function describe(path: string, { types, texts, numbers, dates, count }: Found, of: number): FieldSummary {
  const values = [...texts].sort((a, b) => b[1] - a[1]);
  const tell = (text: string) => (text.startsWith('"') ? (texts.has(text.slice(1)) ? `${cut(text)}"` : cut(text.slice(1))) : cut(text));
  const [spread, tellEnd] = numbers.length >= dates.length ? [numbers, tellNumber] as const : [dates, tellDay] as const;
  const isRange = spread.length > 0 && spread.length * 2 > count && new Set(spread).size > mostBars;
  const repeats = texts.size < [...texts.values()].reduce((all, one) => all + one, 0);
  return {
    path,
    types: [...types].sort((a, b) => b[1] - a[1]),
    count,
    missing: path.endsWith("[]") ? null : { count: Math.max(0, of - count), of },
    examples: values.slice(0, mostExamples).map(([text]) => tell(text)),
    bars: isRange ? spreadOut(spread, tellEnd) : repeats ? values.slice(0, mostBars).map(([text, number]) => ({ label: tell(text), count: number })) : [],
    isRange,
  };
}

function spreadOut(values: readonly number[], tell: (value: number) => string): readonly Bar[] {
  const [least, most] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const scale = Number.isFinite(most - least) ? 1 : 2; // a difference has to be a number, too
  const width = (most / scale - least / scale) / ranges || Number.MIN_VALUE;
  const counts = Array.from({ length: ranges }, () => 0);
  for (const value of values) counts[Math.min(ranges - 1, Math.floor((value / scale - least / scale) / width))]! += 1;
  const end = (at: number) => tell(Math.min(most, (least / scale + at * width) * scale));
  return counts.map((count, at) => ({ label: `${end(at)} to ${end(at + 1)}`, count }));
}

function tellNumber(value: number): string {
  if (Math.abs(value) >= manyDigits) return value.toPrecision(4);
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
}

function tellDay(ms: number): string {
  return tellFarDate(ms, String(Math.round(ms))).split("T")[0]!;
}

function cut(text: string): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}…`;
}

