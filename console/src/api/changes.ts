/** Create, change and delete documents, collections and indexes with the REST API. */

import { type Segments, dataPath, noEtag, pathByFilter, typesKept } from "./data.js";
import { ApiError, asApiError } from "./error.js";
import { type DocumentId, pathTo } from "./ids.js";
import { hidesProperties, requireRight } from "./rights.js";
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
 * Only what differs is sent, so that nothing else is touched, such as properties that rules hide from the caller. What can only
 * be sent whole is rejected where such a rule exists.
 */
export async function changeDocument(segments: Segments, id: DocumentId, before: Fields, after: Fields, etag: string): Promise<void> {
  const headers = { ...jsonBody, ...matching(etag) };
  const path = pathTo(dataPath(segments), id);
  const { patch, whole, former } = describeDifference(before, after);
  if (patch === null) requirePlainNames(after.keys());
  if (whole.length > 0 && (await hidesProperties(path ?? dataPath(segments)))) throw wouldLose(whole[0]!);
  const guard = etag === noEtag ? guardElements(former) : "";
  if (path !== null) {
    await request(path + guard, { method: patch === null ? "PUT" : "PATCH", headers, body: patch ?? writeTyped(after, 0) });
  } else if (patch === null) {
    const body = writeTyped(new Map([["_id", id], ...after]), 0);
    await request(`${dataPath(segments)}?wm=update`, { method: "POST", headers, body });
  } else {
    const response = await request(pathByFilter(`${dataPath(segments)}/*`, id) + guard, { method: "PATCH", headers, body: patch });
    const { matched } = (await response.json()) as { matched: number };
    if (matched !== 1) throw new ApiError(404, "not-found", "The document no longer exists, or you may not change it.");
  }
}

/** Without an etag, only their values show that elements of lists have not moved since the document was read. */
function guardElements(former: ReadonlyMap<string, Value>): string {
  const filter = new Map([...former].map(([path, value]) => [path, new Map([["$eq", value]])]));
  return filter.size === 0 ? "" : `&filter=${encodeURIComponent(writeTyped(filter, 0))}`;
}

function wouldLose(name: string): ApiError {
  const what = name === "" ? "The document" : `The value of ${name}`;
  const message = `${what} would have to be replaced as a whole, and properties in it that a rule may hide from you would be lost.`;
  return new ApiError(0, "hidden-properties", message, undefined, "Keep the names and the elements in their order: change elements of a list where they are, or add some at its end.");
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

export interface Difference {
  /** The update, as JSON; null: none does it, as the order of the first-level names has changed. */
  readonly patch: string | null;
  /** The paths of what is sent whole, although it could contain more than the caller sees; "" is the document. */
  readonly whole: readonly string[];
  /** The values inside lists that are changed, by their paths. */
  readonly former: ReadonlyMap<string, Value>;
}

/** The update that makes `after` of `before`. */
export function describeDifference(before: Fields, after: Fields): Difference {
  if (!hasKeptOrder(before, after)) return { patch: null, whole: [""], former: new Map() };
  const { changed, removed } = compareFields(before, after);
  requirePlainNames([...changed.map(([name]) => name), ...removed]);
  const update = new Update();
  for (const name of removed) update.unset.set(name, "");
  for (const [name, value] of changed) update.add(name, before.get(name), value);
  return update;
}

class Update implements Difference {
  readonly unset = new Map<string, Value>();
  readonly whole: string[] = [];
  readonly former = new Map<string, Value>();
  private readonly set = new Map<string, Value>();

  get patch(): string {
    const parts = [["$set", this.set] as const, ["$unset", this.unset] as const];
    return writeTyped(new Map<string, Value>(parts.filter(([, fields]) => fields.size > 0)), 0);
  }

  /** Of an embedded document and of a list of them only what differs, as paths. */
  add(path: string, before: Value | undefined, after: Value, isInList = false): void {
    if (isFields(before) && isFields(after)) this.addFields(path, before, after, isInList);
    else if (isList(before) && isList(after) && before.some(isComposite)) this.addList(path, before, after);
    else {
      this.set.set(path, after);
      if (isInList && before !== undefined && !isComposite(before)) this.former.set(path, before);
    }
  }

  /** All of it where the order has changed, or a name cannot be in a path. */
  private addFields(path: string, before: Fields, after: Fields, isInList: boolean): void {
    const { changed, removed } = compareFields(before, after);
    if (!hasKeptOrder(before, after) || ![...changed.map(([name]) => name), ...removed].every(isPlainName)) return this.addWhole(path, after);
    for (const name of removed) this.unset.set(`${path}.${name}`, "");
    for (const [name, value] of changed) this.add(`${path}.${name}`, before.get(name), value, isInList);
  }

  /** All of it where an element was removed or has moved: what is hidden in it would stay at its former place. */
  private addList(path: string, before: readonly Value[], after: readonly Value[]): void {
    const [old, now] = [before, after].map((list) => list.map((one) => writeTyped(one, 0))) as [string[], string[]];
    const changed = now.flatMap((text, index) => (text === old[index] ? [] : [index]));
    if (now.length < old.length || changed.some((index) => old.includes(now[index]!))) return this.addWhole(path, after);
    for (const index of changed) this.add(`${path}.${index}`, before[index], after[index]!, true);
  }

  private addWhole(path: string, value: Value): void {
    this.whole.push(path);
    this.set.set(path, value);
  }
}

function isList(value: Value | undefined): value is readonly Value[] {
  return Array.isArray(value);
}

/** Whether something can be hidden inside a value. */
function isComposite(value: Value): boolean {
  return isFields(value) || isList(value);
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
