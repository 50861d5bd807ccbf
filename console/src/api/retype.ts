/** Values that replace others, typed by a user: they keep the type. */

import { Scalar } from "../parts/json.js";
import { parseMoment } from "./scalars.js";
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
  Double: (text) => wrapped("$numberDouble", special.test(text) ? text : decimal.test(text) ? readDouble(text) : null),
  Decimal128: (text) => wrapped("$numberDecimal", special.test(text) || decimal.test(text) ? text : null),
  ObjectId: (text) => wrapped("$oid", /^[0-9a-f]{24}$/i.test(text) ? text.toLowerCase() : null),
  Date: (text) => wrapped("$date", readMoment(text)),
};

/** Only to the millisecond: a date has no more. */
function readMoment(text: string): string | null {
  const millis = /\.\d{4}/.test(text) ? Number.NaN : parseMoment(text);
  return Number.isNaN(millis) ? null : new Date(millis).toISOString();
}

/** Null where a double would be another number than the one that is written. */
function readDouble(text: string): string | null {
  const number = Number(text);
  if (!Number.isFinite(number) || digitsOf(String(number)) !== digitsOf(text)) return null;
  return Object.is(number, -0) ? "-0.0" : String(number);
}

/** A number as its digits and a power of ten, the same for every way to write it. */
function digitsOf(text: string): string {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace(/^[-+]/, "").split(".");
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const short = digits.replace(/0+$/, "");
  return short === "" ? "0" : `${short}e${Number(exponent) - fraction.length + digits.length - short.length}`;
}

/** A text area would remove the carriage returns of a text: it is edited as JSON. */
function isEditedAsJson(value: Value): boolean {
  return typeof value === "string" && value.includes("\r");
}

/** What is wrong with a text that `retype` rejects. */
export function explainMistake(before: Value, text: string): string {
  if (isEditedAsJson(before)) return 'This text has carriage returns: write it in JSON notation, such as "a\\r\\nb".';
  const type = nameType(before);
  const nearest = type === "Double" && decimal.test(text.trim()) ? Number(text) : Number.NaN;
  if (Number.isFinite(nearest)) return `A Double cannot hold this number: the nearest is ${nearest}.`;
  return `Not a value of type ${type}. To change the type, use the tab JSON.`;
}

/** The text to begin with. */
export function textToEdit(value: Value): string {
  if (typeof value === "string" && !isEditedAsJson(value)) return value;
  return value instanceof Scalar && Object.hasOwn(readers, value.type) ? value.text : writeTyped(value, 0);
}

/** Parse a text as a value of the same type; null: it is none. */
export function retype(before: Value, text: string): Value | null {
  if (typeof before === "string" && !isEditedAsJson(before)) return text;
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
