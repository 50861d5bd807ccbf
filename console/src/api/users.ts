/** The users of the server, by the REST API. Passwords are sent, and never come back. */

import { insertFirst, patchDocument, removeDocument } from "./changes.js";
import { type Segments, readDocument, readPage } from "./data.js";
import { ApiError, asApiError, isRecord } from "./error.js";
import type { DocumentId } from "./ids.js";
import { type UsersPlace, segmentsOf } from "./realm.js";
import { type Fields, type Value, isFields, writeTyped } from "./typed.js";

export interface User {
  readonly id: DocumentId;
  /** The name to log in with; null: it is not a text, so this user cannot log in. */
  readonly name: string | null;
  /** null: the value is not a list of roles, or the roles are not in a single property. */
  readonly roles: readonly string[] | null;
  readonly fields: Fields;
}

/** The users whose names begin with this text. */
export function filterOf({ propId }: UsersPlace, beginning: string): string {
  if (beginning.trim() === "") return "";
  const pattern = `^${beginning.trim().replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}`;
  return JSON.stringify({ [propId]: { $regex: pattern, $options: "i" } });
}

export function readUser({ propId, propRoles }: UsersPlace, fields: Fields): User {
  const name = find(fields, propId);
  const roles = propRoles === null ? undefined : find(fields, propRoles);
  return {
    id: fields.get("_id") ?? null,
    name: typeof name === "string" ? name : null,
    roles: propRoles === null ? null : roles === undefined ? [] : Array.isArray(roles) ? (roles as readonly Value[]).filter((role) => typeof role === "string") : null,
    fields,
  };
}

/** Store a new user; 409: the name is already used. */
export async function addUser(place: UsersPlace, name: string, password: string, roles: readonly string[]): Promise<void> {
  const segments = segmentsIn(place);
  if (place.propId !== "_id") await refuseTaken(segments, place.propId, name);
  const document: Record<string, unknown> = {};
  put(document, place.propId, name);
  document[place.propPassword] = password;
  if (place.propRoles !== null) put(document, place.propRoles, roles);
  await insertFirst(segments, JSON.stringify(document));
}

/** Change a property of a user, unless the user was changed in the meantime (412). */
export async function changeUser(place: UsersPlace, seen: User, property: string, value: unknown): Promise<void> {
  const etag = await requireSame(place, seen);
  await patchDocument(segmentsIn(place), seen.id, JSON.stringify({ $set: { [property]: value } }), etag);
}

/** Delete a user, unless the user was changed in the meantime (412). */
export async function removeUser(place: UsersPlace, seen: User): Promise<void> {
  await removeDocument(segmentsIn(place), seen.id, await requireSame(place, seen));
}

/** The user as currently stored; null: the user no longer exists. */
export async function findUser(place: UsersPlace, id: DocumentId, signal?: AbortSignal): Promise<User | null> {
  const stored = await readDocument(segmentsIn(place), id, signal);
  return stored === null ? null : readUser(place, stored.fields);
}

export function segmentsIn({ path }: UsersPlace): Segments {
  if (path === null) throw new ApiError(0, "no-path", "The REST API of this server does not serve the collection of users.", undefined, "Use `docgraph users` on the server.");
  return segmentsOf(path);
}

/** Commands write users without etags: compare with the stored user again. */
async function requireSame(place: UsersPlace, seen: User): Promise<string> {
  const stored = await readDocument(segmentsIn(place), seen.id);
  if (stored === null || writeTyped(stored.fields, 0) !== writeTyped(seen.fields, 0)) throw new ApiError(412, "http-error", "");
  return stored.etag;
}

async function refuseTaken(segments: Segments, propId: string, name: string): Promise<void> {
  const filter = JSON.stringify({ [propId]: { $eq: name } });
  const found = await readPage(segments, { filter, sort: "" }, "", new AbortController().signal).catch((error: unknown) => {
    if (asApiError(error).status !== 404) throw error; // no user has been stored yet
    return null;
  });
  if (found !== null && found.documents.length > 0) throw new ApiError(409, "conflict", "A user with this name already exists.");
}

/** The value at a path in dot notation. */
function find(fields: Fields, path: string): Value | undefined {
  let value: Value | undefined = fields;
  for (const name of path.split(".")) value = isFields(value) ? value.get(name) : undefined;
  return value;
}

function put(document: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split(".");
  let inner = document;
  for (const name of names.slice(0, -1)) {
    const next = inner[name];
    inner = inner[name] = isRecord(next) ? next : {};
  }
  inner[names[names.length - 1]!] = value;
}
