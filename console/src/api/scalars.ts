/** Values of types that JSON does not have, written as objects such as `{"$oid": "…"}`. */

import { Scalar } from "../parts/json.js";

export type Fields = ReadonlyMap<string, Value>;
export type Value = null | boolean | string | Scalar | readonly Value[] | Fields;

type Make = (value: Value, raw: () => string) => Scalar | null;

const lastDate = 253_402_300_799_999; // 9999-12-31
const uuidType = "04";
// Without a zone the server means UTC and a browser its own time: such a text stays as it is.
const dateText = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

const makers: Readonly<Record<string, Make>> = {
  $oid: (value) => (typeof value === "string" ? wrap("ObjectId", "$oid", value) : null),
  $date: readDate,
  $numberInt: (value) => (typeof value === "string" && /^-?\d+$/.test(value) ? new Scalar("Int32", value, value) : null),
  $numberLong: (value) => (typeof value === "string" ? wrap("Int64", "$numberLong", value) : null),
  $numberDouble: (value) => (typeof value === "string" ? wrap("Double", "$numberDouble", value) : null),
  $numberDecimal: (value) => (typeof value === "string" ? wrap("Decimal128", "$numberDecimal", value) : null),
  $uuid: (value, raw) => (typeof value === "string" ? new Scalar("UUID", value, raw()) : null),
  $binary: readBinary,
  $regularExpression: (value, raw) => {
    const [pattern, options] = textsOf(value, "pattern", "options");
    return pattern === undefined || options === undefined ? null : new Scalar("Regex", `/${pattern}/${options}`, raw());
  },
  $timestamp: (value, raw) => {
    const [t, i] = textsOf(value, "t", "i");
    return t === undefined || i === undefined ? null : new Scalar("Timestamp", `${t}, ${i}`, raw());
  },
  $minKey: (_, raw) => new Scalar("MinKey", "MinKey", raw()),
  $maxKey: (_, raw) => new Scalar("MaxKey", "MaxKey", raw()),
  $code: (value, raw) => (typeof value === "string" ? new Scalar("Code", value, raw()) : null),
  $symbol: (value, raw) => (typeof value === "string" ? new Scalar("Symbol", value, raw()) : null),
};

/** The scalar that an object represents; null: it is an ordinary object. */
export function readScalar(fields: Fields, raw: () => string): Scalar | null {
  if (fields.size === 2) return readOldScalar(fields, raw);
  if (fields.size !== 1) return null;
  const [name, value] = [...fields][0]!;
  return name.startsWith("$") && Object.hasOwn(makers, name) ? makers[name]!(value, raw) : null;
}

/** Binary data and regular expressions in extended JSON 1, as the mode `strict` writes them. */
function readOldScalar(fields: Fields, raw: () => string): Scalar | null {
  const [base64, subType] = textsOf(fields, "$binary", "$type");
  if (base64 !== undefined && subType !== undefined) return makeBinary(base64, subType.toLowerCase(), raw);
  const [pattern, options] = textsOf(fields, "$regex", "$options");
  return pattern === undefined || options === undefined ? null : new Scalar("Regex", `/${pattern}/${options}`, raw());
}

function wrap(type: string, name: string, text: string): Scalar {
  return new Scalar(type, text, `{"${name}": ${JSON.stringify(text)}}`);
}

/** Dates are shown as calendar dates; those outside the calendar keep their milliseconds. */
function readDate(value: Value, raw: () => string): Scalar | null {
  const text = value instanceof Scalar ? value.text : value;
  if (typeof text !== "string") return null;
  const millis = /^-?\d+$/.test(text) ? Number(text) : parseMoment(text);
  if (Number.isNaN(millis)) return null;
  if (millis < 0 || millis > lastDate) return new Scalar("Date", tellFarDate(millis, text), raw(), text);
  const shown = new Date(millis).toISOString();
  return new Scalar("Date", shown, `{"$date": "${shown}"}`, String(millis));
}

/** The milliseconds of a date with a time zone, or of a day; NaN: there is no such day. */
export function parseMoment(text: string): number {
  const day = text.slice(0, 10);
  const midnight = dateText.test(text) ? Date.parse(day) : Number.NaN;
  return !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day) ? Date.parse(text) : Number.NaN;
}

/** A date in ISO 8601, or the text of its milliseconds where JavaScript has no such date. */
export function tellFarDate(millis: number, text: string): string {
  const date = new Date(millis);
  return Number.isNaN(date.getTime()) ? `${text} ms` : date.toISOString();
}

function readBinary(value: Value, raw: () => string): Scalar | null {
  const [base64, subType] = textsOf(value, "base64", "subType");
  return base64 === undefined || subType === undefined ? null : makeBinary(base64, subType, raw);
}

function makeBinary(base64: string, subType: string, raw: () => string): Scalar {
  if (subType === uuidType && base64.length === 24) return new Scalar("UUID", tellUuid(base64), raw());
  return new Scalar(`Binary ${subType}`, base64, raw());
}

function tellUuid(base64: string): string {
  try {
    const digits = Array.from(atob(base64), (sign) => sign.charCodeAt(0).toString(16).padStart(2, "0")).join("");
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  } catch {
    return base64;
  }
}

/** The members of an object that has just these, as texts. */
function textsOf(value: Value, ...names: readonly string[]): readonly (string | undefined)[] {
  if (!(value instanceof Map) || value.size !== names.length) return [];
  return names.map((name) => {
    const one: unknown = (value as Fields).get(name);
    return typeof one === "string" ? one : one instanceof Scalar ? one.text : undefined;
  });
}
