/**
 * What this browser stores for a user between visits: under a key of the console, the user and the thing.
 *
 * Logging out removes it, so that no other user of the same browser sees it.
 */

import { settings } from "./settings.js";

type Listener = (key: string, value: unknown) => void;

const ownListeners = new Set<Listener>();
const prefix = `docgraph.console ${settings.base} `;

/** The key of a thing; `user` is null for callers who are not logged in. */
export function keptKey(user: string | null, ...names: readonly string[]): string {
  return prefix + JSON.stringify([user, ...names]);
}

/** The value stored under a key; null: there is none, or the browser stores nothing. */
export function readKept(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") as unknown;
  } catch {
    return null; // not accessible, or not written by the console
  }
}

/** Store a value; false: the browser has no room, or rejects it. */
export function writeKept(key: string, value: unknown): boolean {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    for (const listener of ownListeners) listener(key, value);
    return true;
  } catch {
    return false;
  }
}

/** Forget one thing. */
export function dropKept(key: string): void {
  try {
    localStorage.removeItem(key);
    for (const listener of ownListeners) listener(key, null);
  } catch {
    // The browser stores nothing: there is nothing to remove.
  }
}

/** The further names of all things of a user that are kept under these names. */
export function listNames(user: string | null, ...names: readonly string[]): readonly (readonly string[])[] {
  const before = `${keptKey(user, ...names).slice(0, -1)},`;
  try {
    const own = Object.keys(localStorage).filter((key) => key.startsWith(before));
    return own.map((key) => (JSON.parse(`[${key.slice(before.length)}`) as unknown[]).map(String));
  } catch {
    return [];
  }
}

/** The first of the further names of all things of a user that are kept under this name. */
export function listKept(user: string | null, name: string): readonly string[] {
  return listNames(user, name).map(([first]) => first ?? "");
}

/** Describes the unsaved work of a user in this browser; `withTabs`: with the queries, which are never saved. */
export function findUnsaved(user: string, withTabs = false): string {
  const tabs = withTabs ? listNames(user, "ask").filter(([, kind]) => kind === "tab").length : 0;
  const kinds = { definitions: ["app"], documents: ["document", "new-document"], rules: ["rule"] };
  const found = Object.entries(kinds).filter(([, keys]) => keys.some((key) => listKept(user, key).length > 0));
  return [...(tabs > 0 ? [tabs === 1 ? "tab" : `${tabs} tabs`] : []), ...found.map(([kind]) => kind)].join(" and ");
}

/** Watch what another window of this browser stores or removes (null), with `alsoOwn` this one too; returns a function that ends it. */
export function hearKept(listener: Listener, alsoOwn = false): () => void {
  const hear = ({ key, newValue, storageArea }: StorageEvent) => {
    if (storageArea !== localStorage || key === null || !key.startsWith(prefix)) return;
    listener(key, newValue === null ? null : (JSON.parse(newValue) as unknown));
  };
  addEventListener("storage", hear);
  if (alsoOwn) ownListeners.add(listener);
  return () => {
    removeEventListener("storage", hear);
    ownListeners.delete(listener);
  };
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
    // The browser stores nothing: there is nothing to remove.
  }
}
