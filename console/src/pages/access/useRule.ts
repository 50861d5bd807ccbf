/** One rule: what is stored, the user's changes, and how both are merged. */

import { useState } from "preact/hooks";
import { insertFirst, removeDocument, replaceDocument } from "../../api/changes.js";
import { type Segments, type StoredDocument, readDocument } from "../../api/data.js";
import { ApiError, isRecord } from "../../api/error.js";
import type { DocumentId } from "../../api/ids.js";
import { dropKept, keptKey, readKept } from "../../api/kept.js";
import { useKeeping } from "../../api/keeping.js";
import { checkRule } from "../../api/realm.js";
import { type Fields, writeTyped } from "../../api/typed.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { isOvertaken } from "../data/useDocument.js";
import { ownText } from "../data/work.js";
import { type RuleForm, asForm, formOf, newRule, writeForm } from "./ruleForm.js";

/** The unsaved rule, and the text of the stored rule that it began with; empty: a new rule. */
interface Draft {
  readonly base: string;
  readonly form: RuleForm;
}

export type RuleState =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "ready"; readonly stored: StoredDocument | null; readonly draft: Draft | null };

export interface RuleWork {
  readonly state: RuleState;
  readonly form: RuleForm;
  readonly isChanged: boolean;
  /** Another user has changed the rule since the draft began. */
  readonly isBehind: boolean;
  readonly isKept: boolean;
  change(part: Partial<RuleForm>): void;
  discard(): void;
  keepMine(): void;
  /** The stored document of a new rule; 400: it cannot work. */
  save(): Promise<Fields | null>;
  remove(): Promise<void>;
  load(): void;
}

/** `id` undefined: a new rule. */
export function useRule(owner: string | null, segments: Segments, id: DocumentId | undefined): RuleWork {
  const key = keptKey(owner, "rule", id === undefined ? "" : writeTyped(id, 0));
  const [state, setState] = useState<RuleState>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  const stored = state.kind === "ready" ? state.stored : null;
  const draft = state.kind === "ready" ? state.draft : asDraft(readKept(key));
  const storedText = textOf(stored);
  const isKept = useKeeping(key, draft, (other) => {
    setDraft(asDraft(other));
    if (other === null) load(); // it was saved or discarded there
  });
  const take = (found: StoredDocument | null, rebase = (now: Draft | null) => now) => {
    setState((before) => ({ kind: "ready", stored: found, draft: rebase(before.kind === "ready" ? before.draft : asDraft(readKept(key))) }));
  };
  const setDraft = (next: Draft | null) => setState((before) => (before.kind === "ready" ? { ...before, draft: next } : before));
  // From the newest state: an editor reports a change late, with what was rendered before.
  const revise = (change: (now: Draft | null, text: string) => Draft | null) => {
    setState((before) => (before.kind === "ready" ? { ...before, draft: change(before.draft, textOf(before.stored)) } : before));
  };
  useCallerEffect((signal) => {
    if (id === undefined) return take(null);
    readDocument(segments, id, signal).then((found) => take(found), (error: unknown) => {
      if (!signal.aborted) setState((before) => (before.kind === "ready" ? before : { kind: "failed", error }));
    });
  }, [attempt]);

  const load = () => setAttempt((count) => count + 1);
  const form = draft?.form ?? (stored === null ? newRule : formOf(stored.fields));
  const save = async (): Promise<Fields | null> => {
    const { rule, errors } = await checkRule(writeForm(form));
    if (rule === null) throw new ApiError(400, "invalid-definition", errors[0] === undefined ? "" : `${errors[0].where} ${errors[0].what}`);
    try {
      const made = await store(rule);
      dropKept(key);
      const now = id === undefined ? null : await readDocument(segments, id);
      // The draft ends together with the old state, which must not be edited any longer. What was typed in the meantime stays a draft.
      take(now, (typed) => (id === undefined || typed === null || typed.form === form ? null : { base: textOf(now), form: typed.form }));
      return made;
    } catch (error) {
      if (isOvertaken(error) && id !== undefined) load();
      throw error;
    }
  };
  const store = async (rule: string): Promise<Fields | null> => {
    if (id === undefined) return insertFirst(segments, rule);
    // Commands write rules without etags: compare with the stored rule again.
    const now = await readDocument(segments, id);
    if (textOf(now) !== (draft?.base ?? storedText)) throw new ApiError(412, "http-error", "");
    if (now === null) return insertFirst(segments, `{"_id":${writeTyped(id, 0)},${rule.slice(1)}`);
    await replaceDocument(segments, id, rule, now.etag);
    return null;
  };
  const remove = async () => {
    if (id === undefined || stored === null) return;
    try {
      await removeDocument(segments, id, stored.etag);
    } catch (error) {
      if (isOvertaken(error)) load();
      throw error;
    }
    dropKept(key);
    setState({ kind: "ready", stored: null, draft: null });
  };
  return {
    state,
    form,
    isChanged: draft !== null,
    isBehind: state.kind === "ready" && draft !== null && draft.base !== storedText,
    isKept,
    change: (part) => revise((now, text) => ({ base: now?.base ?? text, form: { ...(now?.form ?? form), ...part } })),
    discard: () => setDraft(null),
    keepMine: () => revise((now, text) => now && { ...now, base: text }),
    save,
    remove,
    load,
  };
}

function textOf(stored: StoredDocument | null): string {
  return stored === null ? "" : ownText(stored);
}

function asDraft(value: unknown): Draft | null {
  const form = isRecord(value) ? asForm(value["form"]) : null;
  return isRecord(value) && form !== null && typeof value["base"] === "string" ? { base: value["base"], form } : null;
}
