/** What somebody is writing: tabs with a query and its variables, kept in this browser. */

import { readKept, writeKept } from "../../api/kept.js";

export interface Draft {
  readonly id: string;
  readonly query: string;
  readonly variables: string;
  readonly operation: string | null;
}

export interface Workspace {
  readonly drafts: readonly Draft[];
  readonly current: string;
}

const mostDrafts = 20;
const mostCharacters = 200_000; // of one draft; a query has at most 64 KiB anyway

let made = 0;

export function makeDraft(query = "", variables = ""): Draft {
  made += 1;
  return { id: `${Date.now().toString(36)}-${made}`, query, variables, operation: null };
}

export function startWorkspace(first: Draft): Workspace {
  return { drafts: [first], current: first.id };
}

export function currentDraft(workspace: Workspace): Draft {
  const found = workspace.drafts.find((one) => one.id === workspace.current);
  return found ?? workspace.drafts[0]!;
}

export function changeDraft(workspace: Workspace, change: Partial<Omit<Draft, "id">>): Workspace {
  const { id } = currentDraft(workspace);
  const drafts = workspace.drafts.map((one) => (one.id === id ? { ...one, ...change } : one));
  return { ...workspace, drafts };
}

/** A further tab becomes the current one; an empty current one gives its place to it. */
export function openDraft(workspace: Workspace, draft: Draft): Workspace {
  const { id, query, variables } = currentDraft(workspace);
  const isUnused = !query.trim() && !variables.trim();
  const others = isUnused && draft.query ? workspace.drafts.filter((one) => one.id !== id) : workspace.drafts;
  const drafts = [...others, draft].slice(-mostDrafts);
  return { drafts, current: draft.id };
}

export function closeDraft(workspace: Workspace, id: string): Workspace {
  const index = workspace.drafts.findIndex((one) => one.id === id);
  const drafts = workspace.drafts.filter((one) => one.id !== id);
  if (drafts.length === 0) return startWorkspace(makeDraft());
  const isCurrent = workspace.current === id;
  return { drafts, current: isCurrent ? drafts[Math.max(0, index - 1)]!.id : workspace.current };
}

/** The name of the operation, or the first field: what tells one tab from another. */
export function titleOf(draft: Draft): string {
  const text = draft.query.replace(/#.*$/gm, "");
  const named = /\b(?:query|mutation|subscription|fragment)\s+([A-Za-z_]\w*)/.exec(text);
  const field = /\{\s*(?:\w+\s*:\s*)?([A-Za-z_]\w*)/.exec(text);
  return draft.operation ?? named?.[1] ?? field?.[1] ?? "Untitled";
}

export function loadWorkspace(key: string): Workspace | null {
  const stored = readKept(key);
  if (typeof stored !== "object" || stored === null || !("drafts" in stored)) return null;
  const { drafts, current } = stored as { drafts: unknown; current: unknown };
  if (!Array.isArray(drafts)) return null;
  const usable = drafts.filter(isDraft).slice(0, mostDrafts);
  if (usable.length === 0) return null;
  return { drafts: usable, current: typeof current === "string" ? current : usable[0]!.id };
}

export function saveWorkspace(key: string, workspace: Workspace): boolean {
  const drafts = workspace.drafts.filter(
    ({ query, variables }) => query.length + variables.length <= mostCharacters,
  );
  return writeKept(key, { drafts, current: workspace.current });
}

function isDraft(value: unknown): value is Draft {
  if (typeof value !== "object" || value === null) return false;
  const { id, query, variables, operation } = value as Partial<Record<keyof Draft, unknown>>;
  const isText = [id, query, variables].every((one) => typeof one === "string");
  return isText && (operation === null || typeof operation === "string");
}
