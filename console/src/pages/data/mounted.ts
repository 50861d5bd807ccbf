/** Where the REST API has databases and collections besides its own root, for callers who may read the server's description. */

import { isRecord } from "../../api/error.js";
import { requestJson } from "../../api/session.js";
import { settings } from "../../api/settings.js";
import { readPath } from "./places.js";

/** Paths below that of the REST API, encoded, without those that a path above them lists. */
export async function findMounted(signal: AbortSignal): Promise<readonly string[]> {
  const described = settings.paths["openapi"];
  if (described === undefined) return [];
  const { paths } = await requestJson<{ paths: Record<string, unknown> }>(described, { signal });
  return selectMounted(paths, settings.paths["mongo"] === "/" ? "" : (settings.paths["mongo"] ?? ""));
}

/** What is mounted next to the databases of the root is not one of them. */
export function selectMounted(paths: Readonly<Record<string, unknown>>, root: string): readonly string[] {
  const places = Object.keys(paths).filter((path) => path.startsWith(`${root}/`) && path !== `${root}/` && !path.includes("{") && (isList(paths[path]) || `${path}/_indexes` in paths));
  const lists = places.filter((path) => isList(paths[path]));
  const others = places.filter((path) => !lists.includes(path.slice(0, path.lastIndexOf("/"))) && !/\/_[a-z]+$/.test(path));
  return others.map((path) => path.slice(root.length + 1));
}

/** The path lists names, of databases or of collections. */
function isList(path: unknown): boolean {
  const get = isRecord(path) ? path["get"] : undefined;
  const tags = isRecord(get) ? get["tags"] : undefined;
  return Array.isArray(tags) && tags.some((tag) => tag === "databases" || tag === "database");
}

/** Paths whose first names are not listed already. */
export function withoutListed(mounted: readonly string[], names: readonly string[]): readonly string[] {
  return mounted.filter((path) => !names.includes(readPath(path)[0] ?? ""));
}
