/** One app: what is stored, the user's changes, and how both are merged. */

import { useCallback, useState } from "preact/hooks";
import { type AppId, type StoredApp, readStored, removeStored, writeStored } from "../../api/apps.js";
import { ApiError, asApiError } from "../../api/error.js";
import { useKeeping } from "../../api/keeping.js";
import { dropKept, keptKey, readKept } from "../../api/kept.js";
import { readMembers } from "../../api/members.js";
import { readTexts } from "../../api/tools.js";
import { newVersion } from "./template.js";
import { type Part, type Version, asVersion, haveSameTexts, readVersion, writeStoredDefinition } from "./work.js";

export type WorkState =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "absent" }
  | { readonly kind: "ready"; readonly stored: Version | null; readonly mine: Version };

export interface Work {
  readonly state: WorkState;
  /** False: the browser has no room for unsaved work. */
  readonly isKept: boolean;
  load(): Promise<void>;
  /** Begin a new app, with an example unless something else is given. */
  begin(version?: Version): void;
  change(part: Part, text: string): void;
  discard(): void;
  /** Continue with the user's texts, whatever is stored; members without an editor come from the stored definition. */
  keepMine(): void;
  /** Put this definition, which is JSON, into the editors. */
  restore(definition: string): Promise<void>;
  save(definition: string): Promise<void>;
  remove(): Promise<void>;
}

export function useWork(owner: string | null, id: AppId): Work {
  const [state, setState] = useState<WorkState>({ kind: "loading" });
  const key = keptKey(owner, "app", id);
  const unsaved = state.kind !== "ready" ? readKept(key) : haveSameTexts(state.mine, state.stored ?? newVersion) ? null : state.mine;
  const isKept = useKeeping(key, unsaved, (other) => {
    const version = asVersion(other);
    setState((before) => (before.kind !== "ready" ? before : { ...before, mine: version ?? before.stored ?? before.mine }));
    if (version === null) load().catch(() => undefined); // it was saved or discarded there
  });

  const load = useCallback(async () => {
    try {
      const stored = await loadVersion(id);
      setState((before) => {
        if (before.kind !== "ready") return settle(stored, asVersion(readKept(key)));
        // The stored definition has not changed: the texts in the editors may have comments that it lacks.
        if (stored !== null && stored.etag === before.stored?.etag) return before;
        return settle(stored, isTouched(before) ? before.mine : null);
      });
    } catch (error) {
      setState((before) => (before.kind === "ready" ? before : { kind: "failed", error }));
      throw error;
    }
  }, [id, key]);

  const setMine = useCallback((make: (mine: Version, stored: Version | null) => Version) => {
    setState((before) => (before.kind === "ready" ? { ...before, mine: make(before.mine, before.stored) } : before));
  }, []);

  const save = async (definition: string) => {
    if (state.kind !== "ready") return;
    const saved = state.mine;
    try {
      const etag = await writeStored(id, definition, saved.etag);
      const stored = { ...saved, etag };
      setState((before) => (before.kind === "ready" ? { kind: "ready", stored, mine: { ...before.mine, etag } } : before));
    } catch (error) {
      if (isOvertaken(error)) await load().catch(() => undefined);
      throw error;
    }
  };
  const remove = async () => {
    if (state.kind !== "ready" || state.stored?.etag == null) return;
    try {
      await removeStored(id, state.stored.etag);
    } catch (error) {
      if (isOvertaken(error)) await load().catch(() => undefined);
      throw error;
    }
    dropKept(key);
    setState({ kind: "absent" });
  };
  return {
    state,
    isKept,
    load,
    begin: (version = newVersion) => setState({ kind: "ready", stored: null, mine: version }),
    change: (part, text) => setMine((mine) => ({ ...mine, texts: { ...mine.texts, [part]: text } })),
    discard: () => {
      if (state.kind !== "ready") return;
      if (state.stored === null) dropKept(key);
      setState(state.stored === null ? { kind: "absent" } : { ...state, mine: state.stored });
    },
    keepMine: () => setMine((mine, stored) => ({ ...mine, etag: stored?.etag ?? null, others: stored?.others ?? mine.others })),
    restore: async (definition) => {
      const members = new Map(readMembers(definition));
      members.delete("_id");
      const { texts, others } = await withTexts(definition, { etag: "", members });
      setState((before) => {
        const stored = before.kind === "ready" ? before.stored : null;
        return { kind: "ready", stored, mine: { etag: stored?.etag ?? null, texts, others } };
      });
    },
    save,
    remove,
  };
}

/** Another user has changed or deleted it, or created one with that name. */
export function isOvertaken(error: unknown): boolean {
  return [404, 409, 412].includes(asApiError(error).status);
}

async function loadVersion(id: AppId): Promise<Version | null> {
  const stored = await readStored(id);
  return stored === null ? null : withTexts(writeStoredDefinition(id, stored), stored);
}

async function withTexts(definition: string, stored: StoredApp): Promise<Version> {
  try {
    return readVersion(stored, await readTexts(definition));
  } catch (error) {
    // Callers who may not use the tools see JSON instead of YAML.
    if (error instanceof ApiError && error.status >= 400 && !error.isUnauthenticated) return readVersion(stored);
    throw error;
  }
}

function isTouched({ stored, mine }: Extract<WorkState, { kind: "ready" }>): boolean {
  return stored === null || !haveSameTexts(mine, stored);
}

function settle(stored: Version | null, mine: Version | null): WorkState {
  if (mine === null) return stored === null ? { kind: "absent" } : { kind: "ready", stored, mine: stored };
  const isSame = stored !== null && haveSameTexts(mine, stored);
  return { kind: "ready", stored, mine: isSame ? stored : mine };
}
