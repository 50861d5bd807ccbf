/** Values that replace others, typed by a user: they keep the type. */

import { Scalar } from "../parts/json.js";
import { type Fields, type Value, isFields, parseTyped, writeTyped } from "./typed.js";

export type Path = readonly (string | number)[];

type Read = (text: string) => string | null; // its JSON; null: not a value of the type

const whole = /^[-+]?\d+$/;
const decimal = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;
const within = (bits: number): Read => (text) => (whole.test(text) && BigInt.asIntN(bits, BigInt(text.replace("+", ""))) === BigInt(text.replace("+", "")) ? String(BigInt(text.replace("+", ""))) : null);
const wrapped = (name: string, text: string | null) => (text === null ? null : `{"${name}": ${JSON.stringify(text)}}`);
const special = /^(?:NaN|-?Infinity)$/;

/** How the types are read that are shown without their JSON. */
const readers: Readonly<Record<string, Read>> = {
  Int32: within(32),
  Int64: (text) => wrapped("$numberLong", within(64)(text)),
  Double: (text) => (special.test(text) ? wrapped("$numberDouble", text) : decimal.test(text) && Number.isFinite(Number(text)) ? wrapped("$numberDouble", String(Number(text))) : null),
  Decimal128: (text) => wrapped("$numberDecimal", special.test(text) || decimal.test(text) ? text : null),
  ObjectId: (text) => wrapped("$oid", /^[0-9a-f]{24}$/i.test(text) ? text.toLowerCase() : null),
  Date: (text) => wrapped("$date", readMoment(text)),
};

/** Only with a time zone, or a day: other texts depend on the zone of the browser. */
function readMoment(text: string): string | null {
  const millis = /^\d{4}-\d\d-\d\d(?:T.*(?:Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(millis) ? null : new Date(millis).toISOString();
}

/** The text to begin with. */
export function textToEdit(value: Value): string {
  if (typeof value === "string") return value;
  return value instanceof Scalar && Object.hasOwn(readers, value.type) ? value.text : writeTyped(value, 0);
}

/** Parse a text as a value of the same type; null: it is none. */
export function retype(before: Value, text: string): Value | null {
  if (typeof before === "string") return text;
  if (before instanceof Scalar && Object.hasOwn(readers, before.type)) {
    const json = readers[before.type]!(text.trim());
    return json === null ? null : parseTyped(json);
  }
  try {
    const value = parseTyped(text);
    return before === null || nameType(value) === nameType(before) ? value : null; // null has no type to keep
  } catch {
    return null; // not complete yet
  }
}

export function nameType(value: Value): string {
  if (value === null) return "Null";
  if (value instanceof Scalar) return value.type;
  if (isFields(value)) return "Object";
  return Array.isArray(value) ? "Array" : typeof value === "string" ? "String" : "Boolean";
}

/** The fields with another value at a path; everything else stays, in its order. */
export function replaceAt(fields: Fields, path: Path, value: Value): Fields {
  return replaceIn(fields, path, value) as Fields;
}

function replaceIn(outer: Value, [step, ...rest]: Path, value: Value): Value {
  if (step === undefined) return value;
  if (isFields(outer)) return new Map([...outer].map(([name, one]) => [name, name === String(step) ? replaceIn(one, rest, value) : one]));
  return Array.isArray(outer) ? (outer as readonly Value[]).map((one, at) => (at === Number(step) ? replaceIn(one, rest, value) : one)) : outer;
}
