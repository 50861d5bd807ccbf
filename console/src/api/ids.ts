/** Ids of documents in addresses: the path of a document, if it has one. */

import { Scalar } from "../parts/json.js";
import { type Value, writeTyped } from "./typed.js";

export type DocumentId = Value;

const special = new Set(["_size", "_meta", "_indexes", "_aggrs", "_streams", "_minkey", "_maxkey", "_null", "_true", "_false", "*", ".", ".."]);
const exactOnly = new Set(["_schemas", "_sessions"]);
const typeInPath: Readonly<Record<string, string>> = { ObjectId: "OID", Int32: "NUMBER", Int64: "NUMBER", Double: "NUMBER", Date: "DATE", MinKey: "MINKEY", MaxKey: "MAXKEY" };

/** The address of a document, with its `id_type`; null: an id of this type has none. */
export function pathTo(collection: string, id: DocumentId): string | null {
  const way = findWay(id);
  return way === null ? null : `${collection}/${encodeURIComponent(way[0])}?id_type=${way[1]}`;
}

function findWay(id: DocumentId): readonly [segment: string, type: string] | null {
  if (id === null) return ["_null", "NULL"];
  if (typeof id === "boolean") return [id ? "_true" : "_false", "BOOLEAN"];
  if (typeof id === "string") return hasPath(id) ? [id, "STRING"] : null;
  if (!(id instanceof Scalar)) return null;
  const type = typeInPath[id.type];
  if (type === undefined || (type === "NUMBER" && !Number.isFinite(Number(id.key)))) return null;
  return [type === "MINKEY" ? "_MinKey" : type === "MAXKEY" ? "_MaxKey" : id.key, type];
}

function hasPath(text: string): boolean {
  const lower = text.toLowerCase();
  return text !== "" && !text.includes("\0") && !special.has(lower) && !(exactOnly.has(lower) && text !== lower);
}

/** What people call the document. */
export function nameOfId(id: DocumentId): string {
  return typeof id === "string" ? id : id instanceof Scalar ? id.text : writeTyped(id, 0);
}
