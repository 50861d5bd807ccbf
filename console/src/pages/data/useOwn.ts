/** Collections that belong to the server itself: definitions, users, rules, schemas. */

import { useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { type Realm, readRealm, segmentsOf } from "../../api/realm.js";
import { useRights } from "../../api/rights.js";
import { pathOf, settings } from "../../api/settings.js";
import { useCallerEffect } from "./useCallerEffect.js";

const schemas = "_schemas";
const realmPath = "tools" in settings.paths ? pathOf("tools", "realm") : "";

/** What each of them is for, by its name, at a path. */
export function useOwn(segments: Segments): ReadonlyMap<string, string> {
  const [realm, setRealm] = useState<Realm | null>(null);
  const rights = useRights([realmPath]);
  const mayRead = realmPath !== "" && rights.may("GET", realmPath);
  useCallerEffect((signal) => {
    if (rights.isKnown && mayRead) readRealm(signal).then(setRealm, () => setRealm(null)); // without it fewer are known
  }, [rights.isKnown, mayRead]);
  return findOwn(segments, [[settings.definitions, "app definitions"], [realm?.users?.path, "users"], [realm?.rules?.path, "rules"]]);
}

export function findOwn(segments: Segments, paths: readonly (readonly [path: string | null | undefined, purpose: string])[]): ReadonlyMap<string, string> {
  const found = new Map([[schemas, "JSON schemas"]]);
  for (const [path, purpose] of paths) {
    const own = path == null ? [] : segmentsOf(path);
    const name = own[own.length - 1];
    if (name !== undefined && JSON.stringify(own.slice(0, -1)) === JSON.stringify(segments)) found.set(name, purpose);
  }
  return found;
}
