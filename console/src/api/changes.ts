/** Create, change and delete documents, collections and indexes with the REST API. */

import { type Segments, dataPath, noEtag, pathByFilter, typesKept } from "./data.js";
import { ApiError, asApiError } from "./error.js";
import { type DocumentId, pathTo } from "./ids.js";
import { requireRight } from "./rights.js";
import { request } from "./session.js";
import { type Fields, type Value, isFields, parseTyped, writeTyped } from "./typed.js";

const jsonBody = { "Content-Type": "application/json" };

/** Create a collection; 412: it already exists. */
export async function createCollection(segments: Segments): Promise<void> {
  await request(dataPath(segments), { method: "PUT", headers: { ...jsonBody, "If-None-Match": "*" }, body: "{}" });
}

/** Store a new document; what is stored, as far as the caller may read it. 409: there is one with this id. */
export async function insertDocument(segments: Segments, document: string): Promise<Fields | null> {
  const headers = { ...jsonBody, Prefer: "return=representation" };
  const response = await request(`${dataPath(segments)}?${typesKept}`, { method: "POST", headers, body: document });
  const text = await response.text();
  const stored = text === "" ? null : parseTyped(text);
  return stored !== null && isFields(stored) ? stored : null;
}

/** The same in a collection that is made with its first document. */
export async function insertFirst(segments: Segments, document: string): Promise<Fields | null> {
  try {
    return await insertDocument(segments, document);
  } catch (error) {
    if (asApiError(error).status !== 404) throw error;
  }
  await createCollection(segments).catch((error: unknown) => {
    if (asApiError(error).status !== 412) throw error; // another user has just created it
  });
  return insertDocument(segments, document);
}

/**
 * Change a document from `before` to `after`, if its etag is still this one (412: it is not).
 *
 * Only what differs is sent, so that nothing else is touched, such as properties that rules hide from the caller; the whole
 * document is sent where the order of its names has changed.
 */
export async function changeDocument(segments: Segments, id: DocumentId, before: Fields, after: Fields, etag: string): Promise<void> {
  const headers = { ...jsonBody, ...matching(etag) };
  const path = pathTo(dataPath(segments), id);
  const patch = describeDifference(before, after);
  if (patch === null) requirePlainNames(after.keys());
  if (path !== null) {
    await request(path, { method: patch === null ? "PUT" : "PATCH", headers, body: patch ?? writeTyped(after, 0) });
  } else if (patch === null) {
    const body = writeTyped(new Map([["_id", id], ...after]), 0);
    await request(`${dataPath(segments)}?wm=update`, { method: "POST", headers, body });
  } else {
    const response = await request(pathByFilter(`${dataPath(segments)}/*`, id), { method: "PATCH", headers, body: patch });
    const { matched } = (await response.json()) as { matched: number };
    if (matched !== 1) throw new ApiError(404, "not-found", "The document no longer exists, or you may not change it.");
  }
}

/** Execute an update of a document, if its etag is still this one (412: it is not). */
export async function patchDocument(segments: Segments, id: DocumentId, update: string, etag: string): Promise<void> {
  await request(requirePath(segments, id), { method: "PATCH", headers: { ...jsonBody, ...matching(etag) }, body: update });
}

/** Replace a document, if its etag is still this one (412: it is not). */
export async function replaceDocument(segments: Segments, id: DocumentId, document: string, etag: string): Promise<void> {
  await request(requirePath(segments, id), { method: "PUT", headers: { ...jsonBody, ...matching(etag) }, body: document });
}

/** Documents that other programs wrote have no etag, and no etag matches them. */
function matching(etag: string): Record<string, string> {
  return etag === noEtag ? {} : { "If-Match": etag };
}

function requirePath(segments: Segments, id: DocumentId): string {
  const path = pathTo(dataPath(segments), id);
  if (path === null) throw new ApiError(0, "no-path", "The REST API has no address for an id of this type.", undefined, "Find the document with a filter on the page Data.");
  return path;
}

/** Delete a document, if its etag is still this one (412: it is not). */
export async function removeDocument(segments: Segments, id: DocumentId, etag: string): Promise<void> {
  const path = pathTo(dataPath(segments), id);
  const headers = matching(etag);
  if (path !== null) {
    await request(path, { method: "DELETE", headers });
    return;
  }
  const response = await request(pathByFilter(`${dataPath(segments)}/*`, id), { method: "DELETE", headers });
  const { deleted } = (await response.json()) as { deleted: number };
  if (deleted !== 1) throw new ApiError(404, "not-found", "The document no longer exists, or you may not delete it.");
}

export async function createIndex(segments: Segments, name: string, keys: string, options: string): Promise<void> {
  const body = `{"keys": ${keys}, "ops": ${options.trim() === "" ? "{}" : options}}`;
  await request(dataPath([...segments, "_indexes", name]), { method: "PUT", headers: jsonBody, body });
}

export async function removeIndex(segments: Segments, name: string): Promise<void> {
  await request(dataPath([...segments, "_indexes", name]), { method: "DELETE" });
}

export async function listIndexes(segments: Segments, signal: AbortSignal): Promise<readonly Fields[]> {
  await requireRight("GET", dataPath([...segments, "_indexes"]));
  const response = await request(`${dataPath([...segments, "_indexes"])}?${typesKept}`, { signal });
  return parseTyped(await response.text()) as readonly Fields[];
}

/** Existing names keep their order, new ones follow. */
function hasKeptOrder(before: Fields, after: Fields): boolean {
  const kept = [...before.keys()].filter((name) => after.has(name));
  return [...after.keys()].slice(0, kept.length).every((name, index) => name === kept[index]);
}

/** The update that makes `after` of `before`, as JSON; null: none does, as the order of the first-level names has changed. */
export function describeDifference(before: Fields, after: Fields): string | null {
  if (!hasKeptOrder(before, after)) return null;
  const { changed, removed } = compareFields(before, after);
  requirePlainNames([...changed.map(([name]) => name), ...removed]);
  const set = new Map<string, Value>();
  const unset = new Map<string, Value>(removed.map((name) => [name, ""]));
  for (const [name, value] of changed) addChange(name, before.get(name), value, set, unset);
  const parts = [["$set", set] as const, ["$unset", unset] as const].filter(([, fields]) => fields.size > 0);
  return writeTyped(new Map<string, Value>(parts), 0);
}

/** In an embedded document only what differs, as paths; all of it where the order has changed, or a name cannot be in a path. */
function addChange(path: string, before: Value | undefined, after: Value, set: Map<string, Value>, unset: Map<string, Value>): void {
  const inner = isFields(before) && isFields(after) && hasKeptOrder(before, after) ? compareFields(before, after) : null;
  if (inner === null || ![...inner.changed.map(([name]) => name), ...inner.removed].every(isPlainName)) {
    set.set(path, after);
    return;
  }
  for (const name of inner.removed) unset.set(`${path}.${name}`, "");
  for (const [name, value] of inner.changed) addChange(`${path}.${name}`, (before as Fields).get(name), value, set, unset);
}

function compareFields(before: Fields, after: Fields): { readonly changed: readonly (readonly [name: string, value: Value])[]; readonly removed: readonly string[] } {
  return {
    changed: [...after].filter(([name, value]) => !before.has(name) || writeTyped(before.get(name)!, 0) !== writeTyped(value, 0)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
  };
}

function isPlainName(name: string): boolean {
  return name !== "" && !name.includes(".") && !name.startsWith("$");
}

/** On the first level, the REST API reads a dot as a nested path, and a dollar sign as an operator. */
function requirePlainNames(names: Iterable<string>): void {
  for (const name of names) {
    if (!isPlainName(name)) {
      const message = `The REST API cannot write a first-level property with the name ${JSON.stringify(name)}.`;
      throw new ApiError(0, "no-such-name", message, undefined, "Change it with another program. The other properties can be changed here.");
    }
  }
}
