/** Checks the apps of a list one after the other, while the page shows them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type AppId, type ListedApp, pathOfApp, readStored } from "../../api/apps.js";
import { type ApiError, asApiError } from "../../api/error.js";
import { type Finding, checkDefinition } from "../../api/tools.js";
import type { State } from "./States.js";
import { writeStoredDefinition } from "./work.js";

export type Outcome = { readonly errors: readonly Finding[]; readonly warnings: readonly Finding[] } | { readonly error: ApiError };

export function useOutcomes(apps: readonly ListedApp[]): ReadonlyMap<AppId, Outcome> {
  const [outcomes, setOutcomes] = useState<ReadonlyMap<AppId, Outcome>>(new Map());
  const asked = useRef(new Set<AppId>()).current;
  const wanted = apps.map((app) => app.id).filter((id) => pathOfApp(id) !== null);
  useEffect(() => {
    const controller = new AbortController();
    const run = async () => {
      for (const id of wanted) {
        if (controller.signal.aborted) return;
        if (asked.has(id)) continue;
        asked.add(id);
        const outcome = await checkStored(id, controller.signal);
        if (outcome === null) asked.delete(id);
        else setOutcomes((before) => new Map(before).set(id, outcome));
      }
    };
    void run();
    return () => controller.abort();
  }, [JSON.stringify(wanted)]);
  return outcomes;
}

/** null: cancelled. */
async function checkStored(id: AppId, signal: AbortSignal): Promise<Outcome | null> {
  try {
    const stored = await readStored(id, signal);
    if (stored === null) return null;
    return await checkDefinition(writeStoredDefinition(id, stored), signal);
  } catch (error) {
    return signal.aborted ? null : { error: asApiError(error) };
  }
}

export function stateOf(isEnabled: boolean, outcome: Outcome | undefined): State {
  if (outcome !== undefined && "errors" in outcome && outcome.errors.length > 0) return "invalid";
  if (!isEnabled) return "disabled";
  return outcome === undefined || "error" in outcome ? "unknown" : "served";
}
