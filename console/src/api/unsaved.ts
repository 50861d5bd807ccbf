/** The unsaved work of a user in this browser, for lists. */

import { useEffect, useState } from "preact/hooks";
import { hearKept, keptKey, listNames } from "./kept.js";

/** The further names of everything that is stored under these names; read again when this or another window changes it. */
export function useKeptNames(owner: string | null, ...names: readonly string[]): readonly (readonly string[])[] {
  const read = () => listNames(owner, ...names);
  const [found, setFound] = useState(read);
  useEffect(() => {
    const update = () => setFound(read());
    update();
    return hearKept(update, true);
  }, [keptKey(owner, ...names)]);
  return found;
}

/** How many unsaved things each page has. */
export function useUnsavedCounts(owner: string | null): Readonly<Record<string, number>> {
  const [apps, documents, newOnes, rules] = [useKeptNames(owner, "app"), useKeptNames(owner, "document"), useKeptNames(owner, "new-document"), useKeptNames(owner, "rule")];
  return { apps: apps.length, data: documents.length + newOnes.length, access: rules.length };
}
