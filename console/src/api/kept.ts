/**
 * What this browser keeps for somebody between visits: under a key of the console, the user and the thing.
 *
 * Nobody sees what another user of the same browser has written: logging out forgets it.
 */

import { settings } from "./settings.js";

const prefix = `docgraph.console ${settings.base} `;

/** The key of a thing; `user` is null for callers who are not logged in. */
export function keptKey(user: string | null, ...names: readonly string[]): string {
  return prefix + JSON.stringify([user, ...names]);
}

/** What is kept under a key; null where nothing is, or the browser keeps nothing. */
export function readKept(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") as unknown;
  } catch {
    return null; // refused, or written by somebody else
  }
}

/** Keep a value; false where the browser has no room, or refuses. */
export function writeKept(key: string, value: unknown): boolean {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** Forget one thing. */
export function dropKept(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}

/** The last names of all things of a user that are kept under this name. */
export function listKept(user: string | null, name: string): readonly string[] {
  const before = `${keptKey(user, name).slice(0, -1)},`;
  try {
    const own = Object.keys(localStorage).filter((key) => key.startsWith(before));
    return own.map((key) => JSON.parse(`[${key.slice(before.length)}`) as unknown[]).map(([last]) => String(last));
  } catch {
    return [];
  }
}

/** Forget everything of a user. */
export function forgetKept(user: string | null): void {
  const own = prefix + JSON.stringify([user]).slice(0, -1);
  try {
    for (const key of Object.keys(localStorage)) {
      const isOwn = key === `${own}]` || key.startsWith(`${own},`);
      if (isOwn) localStorage.removeItem(key);
    }
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}
