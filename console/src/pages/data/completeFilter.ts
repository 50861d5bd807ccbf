/** Completions in a filter: field names, operators of MongoDB, and values of types that JSON lacks. */

import type { Completions } from "../../parts/Editor.js";

/** A bracket that is open at the cursor, and the name before it. */
interface Open {
  readonly bracket: string;
  readonly name: string;
  /** The name whose value comes next; empty: a name comes next. */
  value: string;
}

const logical = ["$and", "$or", "$nor"];
const conditions: Readonly<Record<string, string>> = {
  $eq: "equal", $ne: "not equal", $gt: "greater", $gte: "greater or equal", $lt: "less", $lte: "less or equal",
  $in: "one of a list", $nin: "none of a list", $exists: "has the field", $type: "has this type", $regex: "matches a pattern", $options: "of $regex",
  $not: "the condition does not hold", $elemMatch: "an element of the list matches", $all: "the list has all of them", $size: "length of the list", $mod: "[divisor, remainder]",
  $geoWithin: "inside of a shape", $near: "near a point",
};
const wholes: Readonly<Record<string, string>> = { $and: "all hold", $or: "one holds", $nor: "none holds", $expr: "compares fields", $text: "text search", $comment: "for the log" };
const values: Readonly<Record<string, string>> = { "ISODate(\"\")": "date", "ObjectId(\"\")": "id", "NumberLong(\"\")": "64-bit integer", "NumberDecimal(\"\")": "decimal", "UUID(\"\")": "UUID", true: "", false: "", null: "" };
const token = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{}[\],:()]|[^\s{}[\],:()"']+/g;
const lastWord = /(?:"(?:[^"\\]|\\.)*|'(?:[^'\\]|\\.)*|[@\w$.]*)$/;
const plainName = /^[A-Za-z_$][\w$]*$/;

/** `names`: the fields that are known, with their types. */
export function completeFilter(before: string, names: ReadonlyMap<string, string>): Completions | null {
  const { open, from } = readPlace(before);
  const inner = open[open.length - 1];
  if (inner === undefined) return null;
  const quote = /^["']/.exec(before.slice(from))?.[0] ?? "";
  if (inner.bracket === "(") return null;
  if (inner.bracket === "[" || inner.value !== "") {
    if (quote !== "" || (inner.bracket === "[" && logical.includes(inner.name))) return null;
    return { from, options: Object.entries(values).map(([label, detail]) => ({ label, detail })) };
  }
  const asName = (name: string, detail: string) => ({ label: spell(name, quote), detail });
  const known = isFieldPlace(inner) ? [...fieldsAt(open, names), ...(open.length === 1 || logical.includes(inner.name) ? Object.entries(wholes) : [])] : Object.entries(conditions);
  return { from, options: known.map(([name, detail]) => asName(name, detail)) };
}

/** In the quotes that were begun; without any where the notation of the shell needs none. */
function spell(name: string, quote: string): string {
  if (quote === "'") return `'${name}'`;
  return quote === '"' || !plainName.test(name) ? JSON.stringify(name) : name;
}

function isFieldPlace({ name }: Open): boolean {
  return name === "" || name === "$elemMatch" || logical.includes(name);
}

/** Inside of `$elemMatch` the names are those of the elements. */
function* fieldsAt(open: readonly Open[], names: ReadonlyMap<string, string>): Iterable<readonly [string, string]> {
  const inside = open.slice(1).flatMap(({ name }, at) => (name === "$elemMatch" ? [open[at]!.name] : []));
  const prefix = inside.map((name) => `${name}.`).join("");
  for (const [name, type] of names) if (name.startsWith(prefix)) yield [name.slice(prefix.length), type];
}

/** The brackets that are open at the end of the text, and where its last word begins. */
function readPlace(before: string): { readonly open: readonly Open[]; readonly from: number } {
  const from = before.length - findLastWord(before).length;
  const open: Open[] = [];
  let word = "";
  for (const [text] of before.slice(0, from).matchAll(token)) {
    const inner = open[open.length - 1];
    if (text === "{" || text === "[" || text === "(") {
      // Objects in a list have the name of the list.
      open.push({ bracket: text, name: inner === undefined ? "" : inner.bracket === "[" ? inner.name : inner.value, value: "" });
    } else if (text === "}" || text === "]" || text === ")") open.pop();
    else if (text === ":" && inner !== undefined) inner.value = word;
    else if (text === "," && inner !== undefined) inner.value = "";
    word = /^["']/.test(text) ? text.slice(1, -1) : text;
  }
  return { open, from };
}

/** A text in quotes is a word only while it has no end. */
function findLastWord(before: string): string {
  let at = 0;
  for (const found of before.matchAll(token)) {
    if (/^["']/.test(found[0])) at = found.index + found[0].length;
  }
  return lastWord.exec(before.slice(at))?.[0] ?? "";
}
