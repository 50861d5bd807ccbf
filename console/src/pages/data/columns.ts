/** The columns of a table of documents: where there are too many names, those that most documents have. */

import type { Fields } from "../../api/typed.js";

const mostColumns = 24;
const ownName = "_etag"; // written by the server, for the server

export interface Columns {
  /** `_id` first, then in the order in which they come. */
  readonly names: readonly string[];
  /** How many names have no column. */
  readonly left: number;
}

export function chooseColumns(documents: readonly Fields[], most = mostColumns): Columns {
  const counts = new Map(documents.some((one) => one.has("_id")) ? [["_id", Number.POSITIVE_INFINITY]] : []);
  for (const document of documents) for (const name of document.keys()) if (name !== ownName) counts.set(name, (counts.get(name) ?? 0) + 1);
  const frequent = new Set([...counts].sort((one, other) => other[1] - one[1]).slice(0, most).map(([name]) => name));
  return { names: [...counts.keys()].filter((name) => frequent.has(name)), left: counts.size - frequent.size };
}
