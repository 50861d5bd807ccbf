/** The address of the page: a path of the REST API, and after `#` the query. */

import type { Query, Segments } from "../../api/data.js";
import { isRecord } from "../../api/error.js";
import type { DocumentId } from "../../api/ids.js";
import { parseTyped, writeTyped } from "../../api/typed.js";
import { address } from "../../shell/router.js";

export type View = "documents" | "schema" | "indexes";

const views: readonly string[] = ["documents", "schema", "indexes"] satisfies readonly View[];

/** Where a page begins, and how many documents were seen before it. */
export interface Begin {
  readonly after: string;
  readonly seen: number;
}

export const start: Begin = { after: "", seen: 0 };

export interface Spot extends Query {
  readonly view: View;
  readonly begin: Begin;
  /** The document that is open. */
  readonly id: DocumentId | undefined;
  /** A new document is being written. */
  readonly isNew: boolean;
}

export const everything: Spot = { filter: "", sort: "", view: "documents", begin: start, id: undefined, isNew: false };

export function readSpot(hash: string): Spot {
  const told = new URLSearchParams(hash);
  return {
    filter: told.get("filter") ?? "",
    sort: told.get("sort") ?? "",
    view: views.includes(told.get("view") ?? "") ? (told.get("view") as View) : "documents",
    begin: readBegin(told.get("after"), Number(told.get("seen"))),
    id: readId(told.get("id")),
    isNew: told.has("new"),
  };
}

function readBegin(after: string | null, seen: number): Begin {
  return after === null ? start : { after, seen: Number.isSafeInteger(seen) && seen > 0 ? seen : 1 };
}

const mostBegins = 500; // pages to go back to; the browser keeps them for each address

/** The beginnings of the pages up to this one, of which the browser keeps those before it; a link has none of them. */
export function readTrail(begin: Begin, state: unknown): readonly Begin[] {
  if (begin.after === "") return [start];
  const before = isRecord(state) && Array.isArray(state["trail"]) ? (state["trail"] as unknown[]).filter(isBegin) : [];
  return [...before.filter(({ seen }) => seen < begin.seen), begin];
}

/** What the browser keeps with the address of a page: the beginnings of the pages before it. */
export function writeTrail(trail: readonly Begin[]): { readonly trail: readonly Begin[] } {
  return { trail: trail.slice(0, -1).slice(-mostBegins) };
}

function isBegin(value: unknown): value is Begin {
  return isRecord(value) && typeof value["after"] === "string" && typeof value["seen"] === "number";
}

function readId(text: string | null): DocumentId | undefined {
  if (text === null) return undefined;
  try {
    return parseTyped(text);
  } catch {
    return undefined; // typed by hand
  }
}

export function addressOf(segments: Segments, { filter, sort, view, begin, id, isNew }: Spot = everything): string {
  const told = new URLSearchParams();
  if (filter.trim() !== "") told.set("filter", filter);
  if (sort.trim() !== "") told.set("sort", sort);
  if (view !== "documents") told.set("view", view);
  if (begin.after !== "") {
    told.set("after", begin.after);
    told.set("seen", String(begin.seen));
  }
  if (id !== undefined) told.set("id", writeTyped(id, 0));
  if (isNew) told.set("new", "");
  const hash = told.toString();
  return address("data", ...segments) + (hash === "" ? "" : `#${hash}`);
}

/** The segments of a typed path, such as `/shop/orders`. */
export function readPath(text: string): Segments {
  return text.split("/").filter(Boolean).map(decode);
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
