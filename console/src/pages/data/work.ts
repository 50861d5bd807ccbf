/** A document that a user edits: its text without what the server writes itself. */

import type { StoredDocument } from "../../api/data.js";
import { isRecord } from "../../api/error.js";
import { type Fields, TypedSyntaxError, parseFields, writeTyped } from "../../api/typed.js";
import type { Finding } from "../../parts/Editor.js";

/** What the browser stores of it: the text, and the text of the stored document that it began with. */
export interface Draft {
  readonly base: string;
  readonly text: string;
}

export const mostToEdit = 1 << 20; // characters; more is too much for a page

const fixed = ["_id", "_etag"];

/** Whether a field of the first level can be changed. */
export function isOwn(name: string): boolean {
  return !fixed.includes(name);
}

/** The fields that can be changed. */
export function ownFields(fields: Fields): Fields {
  return new Map([...fields].filter(([name]) => isOwn(name)));
}

export function ownText({ fields, text }: StoredDocument): string {
  return text.length > mostToEdit ? "" : writeTyped(ownFields(fields));
}

/** What is wrong with a text; `_id` and `_etag` may be in it as they are in the stored document. `stored` null: it is new, and the id can be chosen. */
export function findMistake(text: string, stored: Fields | null): Finding | null {
  try {
    const fields = parseFields(text);
    const isUnchanged = (name: string) => (stored === null ? name === "_id" : stored.has(name) && writeTyped(stored.get(name)!, 0) === writeTyped(fields.get(name)!, 0));
    const name = fixed.find((one) => fields.has(one) && !isUnchanged(one));
    if (name === undefined) return null;
    const message = name === "_id" ? "The _id of a document cannot change: leave it as it is, leave it out, or insert another document" : "The server writes _etag itself: leave it out";
    return { line: 1, column: 1, severity: "error", message };
  } catch (error) {
    if (!(error instanceof TypedSyntaxError)) throw error;
    return { line: error.line, column: error.column, severity: "error", message: error.message };
  }
}

/** What the browser has stored, if it is a valid draft. */
export function asDraft(value: unknown): Draft | null {
  if (!isRecord(value) || typeof value["base"] !== "string" || typeof value["text"] !== "string") return null;
  return { base: value["base"], text: value["text"] };
}
