/** The address of the page: a path of the REST API, and after `#` the query. */

import type { Query, Segments } from "../../api/data.js";
import type { DocumentId } from "../../api/ids.js";
import { parseTyped, writeTyped } from "../../api/typed.js";
import { address } from "../../shell/router.js";

export type View = "documents" | "schema" | "indexes";

const views: readonly string[] = ["documents", "schema", "indexes"] satisfies readonly View[];

export interface Spot extends Query {
  readonly view: View;
  /** The document that is open. */
  readonly id: DocumentId | undefined;
  /** A new document is being written. */
  readonly isNew: boolean;
}

export const everything: Spot = { filter: "", sort: "", view: "documents", id: undefined, isNew: false };

export function readSpot(hash: string): Spot {
  const told = new URLSearchParams(hash);
  return {
    filter: told.get("filter") ?? "",
    sort: told.get("sort") ?? "",
    view: views.includes(told.get("view") ?? "") ? (told.get("view") as View) : "documents",
    id: readId(told.get("id")),
    isNew: told.has("new"),
  };
}

function readId(text: string | null): DocumentId | undefined {
  if (text === null) return undefined;
  try {
    return parseTyped(text);
  } catch {
    return undefined; // typed by hand
  }
}

export function addressOf(segments: Segments, { filter, sort, view, id, isNew }: Spot = everything): string {
  const told = new URLSearchParams();
  if (filter.trim() !== "") told.set("filter", filter);
  if (sort.trim() !== "") told.set("sort", sort);
  if (view !== "documents") told.set("view", view);
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
