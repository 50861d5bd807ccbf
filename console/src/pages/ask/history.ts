/** Queries that were run, latest first; one list for each server, user and app. */

import { readKept, writeKept } from "../../api/kept.js";

export interface Entry {
  readonly query: string;
  readonly variables: string;
  readonly operation: string | null;
  readonly at: number;
}

const mostEntries = 100;
const mostCharacters = 500_000; // all of them together: browsers keep about 5 MB for a site

export function loadHistory(key: string): readonly Entry[] {
  const stored = readKept(key);
  return Array.isArray(stored) ? stored.filter(isEntry).slice(0, mostEntries) : [];
}

/** The list with this entry first; the same query with the same variables appears in it once. */
export function remember(entries: readonly Entry[], entry: Entry): readonly Entry[] {
  const others = entries.filter(
    ({ query, variables }) => query !== entry.query || variables !== entry.variables,
  );
  let characters = 0;
  return [entry, ...others].slice(0, mostEntries).filter(({ query, variables }) => {
    characters += query.length + variables.length;
    return characters <= mostCharacters;
  });
}

export function saveHistory(key: string, entries: readonly Entry[]): void {
  writeKept(key, entries);
}

function isEntry(value: unknown): value is Entry {
  if (typeof value !== "object" || value === null) return false;
  const { query, variables, operation, at } = value as Partial<Record<keyof Entry, unknown>>;
  return (
    typeof query === "string" &&
    typeof variables === "string" &&
    typeof at === "number" &&
    (operation === null || typeof operation === "string")
  );
}
