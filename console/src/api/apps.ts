/** The stored definitions of apps, by the REST API. */

import { ApiError, isRecord, readError } from "./error.js";
import { type Members, readElements, readMembers } from "./members.js";
import { requireRight } from "./rights.js";
import { request, send } from "./session.js";
import { settings } from "./settings.js";

/** An id as JSON: most are texts, but apps with an address of their own may have any. */
export type AppId = string;

export interface ListedApp {
  readonly id: AppId;
  readonly uri: string | null;
  readonly description: string | null;
  readonly isEnabled: boolean;
}

export interface StoredApp {
  readonly etag: string;
  /** Everything but the id, each as it is written in JSON. */
  readonly members: Members;
}

const pageSize = 100;
const mostPages = 50;
const noEtag = "none"; // of documents that were not written by the REST API: it is accepted until the REST API writes them
const jsonBody = { "Content-Type": "application/json" };

export function idOf(name: string): AppId {
  return JSON.stringify(name);
}

/** What people call the app. */
export function nameOf(id: AppId): string {
  const value: unknown = JSON.parse(id);
  if (typeof value === "string") return value;
  return isRecord(value) && typeof value["$oid"] === "string" ? value["$oid"] : id;
}

/** Where the REST API serves the definition; null: it does not, or such an id has no path. */
export function pathOfApp(id: AppId): string | null {
  const way = wayOf(JSON.parse(id));
  if (settings.definitions === null || way === null) return null;
  const [segment, type] = way;
  return `${settings.definitions}/${encodeURIComponent(segment)}${type === "" ? "" : `?id_type=${type}`}`;
}

function wayOf(value: unknown): readonly [segment: string, type: string] | null {
  if (typeof value === "string") return value === "" ? null : [value, /^[0-9a-f]{24}$/i.test(value) ? "STRING" : ""];
  if (typeof value === "number") return [String(value), "NUMBER"];
  if (isRecord(value) && typeof value["$oid"] === "string") return [value["$oid"], "OID"];
  return null;
}

/** All stored apps, as far as the caller may read definitions. */
export async function listStored(signal: AbortSignal): Promise<readonly ListedApp[]> {
  const found: ListedApp[] = [];
  const query = new URLSearchParams({ keys: '{"descriptor":1}', sort: '{"_id":1}', pagesize: String(pageSize) });
  for (let page = 1; page <= mostPages; page += 1) {
    const response = await request(`${settings.definitions ?? ""}?${query.toString()}&page=${page}`, { signal });
    const elements = readElements(await response.text());
    found.push(...elements.map(readListed));
    if (elements.length < pageSize) break;
  }
  return found;
}

function readListed(text: string): ListedApp {
  const members = readMembers(text);
  const descriptor: unknown = JSON.parse(members.get("descriptor") ?? "{}");
  const { uri, description, enabled } = isRecord(descriptor) ? descriptor : {};
  return {
    id: members.get("_id") ?? "null",
    uri: typeof uri === "string" ? uri : null,
    description: typeof description === "string" ? description : null,
    isEnabled: enabled !== false,
  };
}

/** The definition; null where there is none. */
export async function readStored(id: AppId, signal?: AbortSignal): Promise<StoredApp | null> {
  const path = requirePath(id);
  await requireRight("GET", path);
  const response = await send(path, signal ? { signal } : {});
  if (response.status === 404) return null;
  if (!response.ok) throw await readError(response);
  const members = new Map(readMembers(await response.text()));
  for (const name of ["_id", "_etag"]) members.delete(name);
  return { etag: response.headers.get("ETag") ?? noEtag, members };
}

/** Store a definition, if what is stored is still what `etag` says (null: nothing); the new etag. 412: it is not. */
export async function writeStored(id: AppId, definition: string, etag: string | null): Promise<string> {
  const path = requirePath(id);
  if (etag !== null) return written(await request(path, { method: "PUT", headers: { ...jsonBody, "If-Match": etag }, body: definition }));
  const wanted = path.includes("?") ? `${path}&wm=upsert` : `${path}?wm=upsert`;
  return written(await request(wanted, { method: "PUT", headers: { ...jsonBody, "If-None-Match": "*" }, body: definition }));
}

/** Delete a definition, if it is still the one that `etag` says. */
export async function removeStored(id: AppId, etag: string): Promise<void> {
  await request(requirePath(id), { method: "DELETE", headers: { "If-Match": etag } });
}

function written(response: Response): string {
  return response.headers.get("ETag") ?? noEtag;
}

function requirePath(id: AppId): string {
  const path = pathOfApp(id);
  if (path !== null) return path;
  const message = settings.definitions === null ? "The REST API of this server does not serve the definitions." : "The REST API has no address for this id.";
  throw new ApiError(0, "no-path", message, undefined, "Use `docgraph apps` on the server.");
}
