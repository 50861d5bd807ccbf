/** One document: what is stored, the user's changes, and how both are merged. */

import { useState } from "preact/hooks";
import { changeDocument, insertDocument, removeDocument } from "../../api/changes.js";
import { type Segments, type StoredDocument, readDocument } from "../../api/data.js";
import { ApiError, asApiError } from "../../api/error.js";
import type { DocumentId } from "../../api/ids.js";
import { dropKept, keptKey, readKept } from "../../api/kept.js";
import { useKeeping } from "../../api/keeping.js";
import { parseFields, writeTyped } from "../../api/typed.js";
import { useCallerEffect } from "./useCallerEffect.js";
import { pathText } from "./visits.js";
import { type Draft, asDraft, ownFields, ownText } from "./work.js";

export type DocumentState =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Without `stored` the document no longer exists, and only `draft` is left. */
  | { readonly kind: "ready"; readonly stored: StoredDocument | null; readonly draft: Draft | null };

export interface DocumentWork {
  readonly state: DocumentState;
  /** False: the browser has no room for unsaved work. */
  readonly isKept: boolean;
  change(text: string): void;
  discard(): void;
  /** Continue with the user's text, whatever is stored. */
  keepMine(): void;
  save(): Promise<void>;
  remove(): Promise<void>;
  load(): Promise<void>;
}

export function useDocument(owner: string | null, segments: Segments, id: DocumentId): DocumentWork {
  const key = keptKey(owner, "document", pathText(segments), writeTyped(id, 0));
  const [state, setState] = useState<DocumentState>({ kind: "loading" });
  const draft = state.kind === "ready" ? state.draft : asDraft(readKept(key));
  const isKept = useKeeping(key, draft, (other) => {
    setDraft(() => asDraft(other));
    if (other === null) void load(); // it was saved or discarded there
  });

  const take = (stored: StoredDocument | null, rebase = (now: Draft | null) => now) => {
    setState((before) => ({ kind: "ready", stored, draft: settle(stored, rebase(before.kind === "ready" ? before.draft : asDraft(readKept(key)))) }));
  };
  const load = async (signal?: AbortSignal, rebase?: (now: Draft | null) => Draft | null) => {
    try {
      take(await readDocument(segments, id, signal), rebase);
    } catch (error) {
      if (!signal?.aborted) setState((before) => (before.kind === "ready" ? before : { kind: "failed", error }));
    }
  };
  useCallerEffect((signal) => void load(signal), []);

  const setDraft = (make: (stored: StoredDocument | null, draft: Draft | null) => Draft | null) => {
    setState((before) => (before.kind === "ready" ? { ...before, draft: make(before.stored, before.draft) } : before));
  };
  const save = async () => {
    if (state.kind !== "ready" || state.draft === null) return;
    const { text } = state.draft;
    // Other programs write without etags: compare with the stored document again.
    const stored = await readDocument(segments, id);
    if ((stored === null ? "" : ownText(stored)) !== state.draft.base) {
      take(stored);
      throw overtaken();
    }
    const after = ownFields(parseFields(text));
    try {
      if (stored === null) await insertDocument(segments, writeTyped(new Map([["_id", id], ...after]), 0));
      else await changeDocument(segments, id, ownFields(stored.fields), after, stored.etag);
    } catch (error) {
      if (isOvertaken(error)) await load();
      throw error;
    }
    dropKept(key);
    // The draft ends together with the old state, which must not be edited any longer. What was typed in the meantime stays a draft.
    await load(undefined, (now) => (now === null || now.text === text ? null : { ...now, base: writeTyped(after) }));
  };
  const remove = async () => {
    if (state.kind !== "ready" || state.stored === null) return;
    // Without an etag, only this comparison finds a write in the meantime.
    const stored = await readDocument(segments, id);
    if (stored !== null && stored.etag !== state.stored.etag) {
      take(stored);
      throw overtaken();
    }
    try {
      await removeDocument(segments, id, state.stored.etag);
    } catch (error) {
      if (isOvertaken(error)) await load();
      throw error;
    }
    dropKept(key);
    setState({ kind: "ready", stored: null, draft: null });
  };
  return {
    state,
    isKept,
    change: (text) => setDraft((stored, now) => settle(stored, { base: now?.base ?? (stored === null ? "" : ownText(stored)), text })),
    discard: () => setDraft(() => null),
    keepMine: () => setDraft((stored, now) => now && { ...now, base: stored === null ? "" : ownText(stored) }),
    save,
    remove,
    load,
  };
}

/** Another user has changed or deleted it, or created one with this id. */
export function isOvertaken(error: unknown): boolean {
  return [404, 409, 412].includes(asApiError(error).status);
}

function overtaken(): ApiError {
  return new ApiError(412, "http-error", "");
}

/** A draft equal to the stored text is not a draft. */
function settle(stored: StoredDocument | null, draft: Draft | null): Draft | null {
  return draft !== null && stored !== null && draft.text === ownText(stored) ? null : draft;
}
