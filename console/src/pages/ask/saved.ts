/** Named queries, each stored by itself in this browser, for each user and app. */

import { dropKept, keptKey, listNames, readKept, writeKept } from "../../api/kept.js";
import { storable } from "./headers.js";

export interface SavedQuery {
  readonly name: string;
  readonly query: string;
  readonly variables: string;
  readonly headers: string;
  readonly at: number;
}

/** Whose queries, and of which app. */
export interface SavedPlace {
  readonly owner: string | null;
  readonly app: string;
}

export const longestName = 100; // characters
const mostSaved = 200;
const mostCharacters = 100_000; // of one query with its variables

function keyOf({ owner, app }: SavedPlace, name: string): string {
  return keptKey(owner, "ask", app, "saved", name);
}

/** Whether a key is that of a saved query of this place. */
export function isSavedKey(place: SavedPlace, key: string): boolean {
  return key.startsWith(keyOf(place, "").slice(0, -3));
}

/** The saved queries by name. */
export function listSaved(place: SavedPlace): readonly SavedQuery[] {
  const names = listNames(place.owner, "ask", place.app, "saved").map(([name]) => name ?? "");
  return names.flatMap((name) => loadSaved(place, name) ?? []).sort((one, other) => one.name.localeCompare(other.name));
}

export function loadSaved(place: SavedPlace, name: string): SavedQuery | null {
  const value = readKept(keyOf(place, name));
  if (typeof value !== "object" || value === null) return null;
  const { query, variables, headers, at } = value as Partial<Record<keyof SavedQuery, unknown>>;
  const isWhole = [query, variables, headers].every((one) => typeof one === "string") && typeof at === "number";
  return isWhole ? ({ name, query, variables, headers, at } as SavedQuery) : null;
}

/** Save a query under its name, in the place of one that has it; the reason where it is not saved. */
export function saveQuery(place: SavedPlace, { name, query, variables, headers, at }: SavedQuery): string | null {
  if (name.trim() === "" || name.length > longestName) return `A name has 1 to ${longestName} characters`;
  if (query.trim() === "") return "The query is empty";
  if (query.length + variables.length + headers.length > mostCharacters) return "The query is too long to be saved here";
  if (loadSaved(place, name) === null && listSaved(place).length >= mostSaved) return `There are ${mostSaved} saved queries already: delete one first`;
  return writeKept(keyOf(place, name), { query, variables, headers: storable(headers), at }) ? null : "This browser has no room for it";
}

export function dropSaved(place: SavedPlace, name: string): void {
  dropKept(keyOf(place, name));
}
