/** Databases, collections and documents, by the REST API: read and listed. */

import { ApiError, asApiError, readError } from "./error.js";
import { type DocumentId, pathTo } from "./ids.js";
import { requireRight } from "./rights.js";
import { request, requestJson, send } from "./session.js";
import { pathOf } from "./settings.js";
import { type Fields, type Value, isFields, parseTyped, writeTyped } from "./typed.js";
import { Scalar } from "../parts/json.js";

/** The segments of a path below that of the REST API, decoded. */
export type Segments = readonly string[];

/** What a path contains: names of databases, names of collections, or documents. */
export type PlaceKind = "databases" | "database" | "collection";

export interface Query {
  /** JSON, as lenient as the server reads it; empty: all documents. */
  readonly filter: string;
  /** Empty: newest first. */
  readonly sort: string;
}

export interface Page {
  readonly documents: readonly Fields[];
  /** Where the next page begins; null: this is the last one. */
  readonly next: string | null;
  /** Documents of a page, where fewer than usual fit into an answer. */
  readonly size: number | null;
}

export interface StoredDocument {
  readonly fields: Fields;
  readonly etag: string;
  /** The whole text, as received. */
  readonly text: string;
}

const mostNamePages = 100;
const smallerSizes = [null, 10, 1] as const; // documents of a page; null: as many as the server likes
export const noEtag = "none"; // of documents that were not written by the REST API
export const typesKept = "jsonMode=strict";

export function dataPath(segments: Segments): string {
  return pathOf("mongo", ...segments);
}

/** What a path contains, by the methods that it allows: every caller may ask for them. */
export async function findKind(segments: Segments, signal: AbortSignal): Promise<PlaceKind> {
  const response = await send(dataPath(segments), { method: "OPTIONS", signal });
  const allowed = (response.headers.get("Allow") ?? "").split(/,\s*/);
  if (allowed.includes("POST")) return segments.length > 0 || (await isThere(segments, signal)) ? "collection" : "databases";
  return allowed.includes("PUT") ? "database" : "databases";
}

/** A path where nothing is mounted allows all methods, too: at the top that is not the caller's mistake. */
async function isThere(segments: Segments, signal: AbortSignal): Promise<boolean> {
  const isAllowed = await requireRight("GET", dataPath(segments)).then(() => true, () => false);
  return isAllowed && (await send(`${dataPath(segments)}?pagesize=0`, { signal })).ok;
}

/** The names of the databases or collections at a path. */
export async function listNames(segments: Segments, signal: AbortSignal): Promise<readonly string[]> {
  const names: string[] = [];
  let query: string | null = "";
  for (let page = 0; query !== null && page < mostNamePages; page += 1) {
    const response: Response = await request(dataPath(segments) + query, { signal });
    const found: unknown = await response.json();
    if (!Array.isArray(found)) throw new ApiError(0, "no-names", "This path is a document, not a collection.");
    names.push(...found.map(String));
    query = findNext(response);
  }
  return names;
}

/** A page of the documents after `after`; empty: the first page. Documents that are too large for one response come in smaller pages. */
export async function readPage(segments: Segments, query: Query, after: string, signal: AbortSignal): Promise<Page> {
  await requireRight("GET", dataPath(segments));
  for (const size of smallerSizes) {
    try {
      const asked = `${dataPath(segments)}?${typesKept}&after=${encodeURIComponent(after)}${writeQuery(query)}`;
      const response = await request(size === null ? asked : `${asked}&pagesize=${size}`, { signal });
      const documents = parseTyped(await response.text()) as readonly Fields[];
      return { documents, next: new URLSearchParams(findNext(response) ?? "").get("after"), size };
    } catch (error) {
      if (asApiError(error).code !== "answer-too-large" || size === 1) throw error;
    }
  }
  throw new ApiError(0, "client-error", "No page is small enough.");
}

/** The pages of a query, one after the other. */
export async function* walkPages(segments: Segments, query: Query, signal: AbortSignal): AsyncGenerator<Page> {
  for (let after: string | null = ""; after !== null; ) {
    const page: Page = await readPage(segments, query, after, signal);
    yield page;
    after = page.next;
  }
}

export interface Sample {
  readonly documents: readonly Fields[];
  /** False: the newest and the oldest of more. */
  readonly isWhole: boolean;
}

const samplePages = 5; // from each end

/** Documents that match, the newest and the oldest of them. */
export async function readSample(segments: Segments, filter: string, signal: AbortSignal): Promise<Sample> {
  const found = new Map<string, Fields>();
  for (const sort of ["", "_id"]) {
    let pages = 0;
    for await (const { documents, next } of walkPages(segments, { filter, sort }, signal)) {
      for (const one of documents) found.set(one.has("_id") ? writeTyped(one.get("_id")!, 0) : String(found.size), one);
      pages += 1;
      if (next === null) return { documents: [...found.values()], isWhole: true };
      if (pages === samplePages) break;
    }
  }
  return { documents: [...found.values()], isWhole: false };
}

export interface Figures {
  /** Documents of a collection, or collections of a database. */
  readonly count: number | null;
  readonly bytes: number | null;
  readonly indexes: number | null;
}

/** The size of a collection or a database, as far as the caller may read it. */
export async function readFigures(segments: Segments, may: { readonly size: boolean; readonly indexes: boolean }, signal: AbortSignal): Promise<Figures> {
  const [size, indexes] = await Promise.allSettled([
    may.size ? requestJson<{ _size: number; _bytes?: number }>(`${dataPath([...segments, "_size"])}?count=estimated&bytes=true`, { signal }) : null,
    may.indexes ? requestJson<readonly unknown[]>(dataPath([...segments, "_indexes"]), { signal }) : null,
  ]);
  const known = size.status === "fulfilled" ? size.value : null;
  return { count: known?._size ?? null, bytes: known?._bytes ?? null, indexes: indexes.status === "fulfilled" ? (indexes.value?.length ?? null) : null };
}

const csvRows = 1000; // of a page; the default of `mongo.max-pagesize`

/** The pages of a query as CSV, and whether more follow. */
export async function* walkCsv(segments: Segments, query: Query, signal: AbortSignal): AsyncGenerator<{ readonly text: string; readonly hasNext: boolean }> {
  const path = dataPath(segments);
  const first = `?format=csv&after=${writeQuery(query)}`;
  let response: Response = await request(`${path}${first}&pagesize=${csvRows}`, { signal }).catch((error: unknown) => {
    if (asApiError(error).status !== 400) throw error;
    return request(path + first, { signal }); // the server has smaller pages
  });
  for (;;) {
    const next = findNext(response);
    yield { text: await response.text(), hasNext: next !== null };
    if (next === null) return;
    response = await request(path + next, { signal });
  }
}

/** Check whether the server can parse a query; throws what is wrong. No documents are read. */
export async function checkQuery(segments: Segments, query: Query, signal: AbortSignal): Promise<void> {
  await requireRight("GET", dataPath(segments));
  await request(`${dataPath(segments)}?pagesize=0${writeQuery(query)}`, { signal });
}

/** How many documents match; the database counts them. */
export async function countDocuments(segments: Segments, { filter }: Query, signal: AbortSignal): Promise<number> {
  const path = `${dataPath(segments)}/_size?${writeQuery({ filter, sort: "" })}`;
  return (await requestJson<{ _size: number }>(path, { signal }))._size;
}

/** A document; null where there is none. */
export async function readDocument(segments: Segments, id: DocumentId, signal?: AbortSignal): Promise<StoredDocument | null> {
  const path = pathTo(dataPath(segments), id);
  await requireRight("GET", path ?? dataPath(segments));
  const response = await send(path ? `${path}&${typesKept}` : `${pathByFilter(dataPath(segments), id)}&${typesKept}&pagesize=1`, signal ? { signal } : {});
  if (response.status === 404) return null;
  if (!response.ok) throw await readError(response);
  const text = await response.text();
  const found = parseTyped(text);
  const fields = Array.isArray(found) ? (found as readonly Value[])[0] : found;
  if (!isFields(fields)) return null;
  return { fields, etag: response.headers.get("ETag") ?? etagOf(fields), text: path ? text : text.slice(1, -1) };
}

/** The address of the documents with this id, which is one: for ids without a path. */
export function pathByFilter(path: string, id: DocumentId): string {
  return `${path}?filter=${encodeURIComponent(`{"_id":{"$eq":${writeTyped(id, 0)}}}`)}`;
}

export function etagOf(fields: Fields): string {
  const etag = fields.get("_etag");
  return etag instanceof Scalar ? etag.text : typeof etag === "string" ? etag : noEtag;
}

function writeQuery({ filter, sort }: Query): string {
  const filtering = filter.trim() === "" ? "" : `&filter=${encodeURIComponent(filter)}`;
  return sort.trim() === "" ? filtering : `${filtering}&sort=${encodeURIComponent(sort.trim())}`;
}

/** The query of the next page; the path is that of the request, whatever proxy is in front of the server. */
function findNext(response: Response): string | null {
  const link = /<[^>?]*(\?[^>]*)>;\s*rel="next"/.exec(response.headers.get("Link") ?? "");
  return link?.[1] ?? null;
}
