/** The unsaved queries of a user: tabs with a query and its variables, each stored separately in this browser, so that windows share them. */

import { storable } from "./headers.js";
import { dropKept, keptKey, listNames, readKept, writeKept } from "../../api/kept.js";

export interface Draft {
  readonly id: string;
  readonly query: string;
  readonly variables: string;
  readonly operation: string | null;
  /** Headers that are sent with it, one in each line. */
  readonly headers?: string;
  /** Written by the page, so it can be replaced. */
  readonly isExample?: boolean;
}

export interface Workspace {
  readonly drafts: readonly Draft[];
  readonly current: string;
}

export const mostDrafts = 20;
const mostCharacters = 200_000; // of one draft; a query has at most 64 KiB anyway

let made = 0;

export function makeDraft(query = "", variables = ""): Draft {
  made += 1;
  const apart = Math.random().toString(36).slice(2, 8); // two windows can open a tab in the same moment
  return { id: `${Date.now().toString(36)}-${made}-${apart}`, query, variables, operation: null };
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
  const drafts = workspace.drafts.map((one) => (one.id === id ? { ...one, isExample: false, ...change } : one));
  return { ...workspace, drafts };
}

/** Open another tab and select it, in the place of the current one if that is unused, or of another if there is no room; null: there is none. */
export function openDraft(workspace: Workspace, draft: Draft): Workspace | null {
  const current = currentDraft(workspace);
  const unused = draft.query && isUnused(current) ? current : isFull(workspace) ? workspace.drafts.find(isUnused) : undefined;
  return unused === undefined && isFull(workspace) ? null : addDraft(workspace, draft, unused);
}

/** The workspace with a tab more, even where there is no room, so that no text is lost. */
export function addDraft({ drafts }: Workspace, draft: Draft, replaced?: Draft): Workspace {
  return { drafts: [...drafts.filter((one) => one !== replaced), draft], current: draft.id };
}

export function isFull({ drafts }: Workspace): boolean {
  return drafts.length >= mostDrafts;
}

function isUnused({ query, variables, headers = "", isExample }: Draft): boolean {
  return isExample === true || [query, variables, headers].every((one) => one.trim() === "");
}

export function closeDraft(workspace: Workspace, id: string): Workspace {
  const index = workspace.drafts.findIndex((one) => one.id === id);
  const drafts = workspace.drafts.filter((one) => one.id !== id);
  if (drafts.length === 0) return startWorkspace(makeDraft());
  const isCurrent = workspace.current === id;
  return { drafts, current: isCurrent ? drafts[Math.max(0, index - 1)]!.id : workspace.current };
}

/** The name of the operation, or the first field: what distinguishes one tab from another. */
export function titleOf(draft: Draft): string {
  const text = draft.query.replace(/#.*$/gm, "");
  const named = /\b(?:query|mutation|subscription|fragment)\s+([A-Za-z_]\w*)/.exec(text);
  const field = /\{\s*(?:\w+\s*:\s*)?([A-Za-z_]\w*)/.exec(text);
  return draft.operation ?? named?.[1] ?? field?.[1] ?? "Untitled";
}

/** Where tabs are stored: by user and app. */
export interface TabsPlace {
  readonly owner: string | null;
  readonly app: string;
}

function keyOf({ owner, app }: TabsPlace, id: string): string {
  return keptKey(owner, "ask", app, "tab", id);
}

export function loadWorkspace(place: TabsPlace): Workspace | null {
  const ids = listNames(place.owner, "ask", place.app, "tab").map(([id]) => id ?? "").sort();
  const drafts = ids.map((id) => readKept(keyOf(place, id))).filter(isDraft);
  const last = drafts[drafts.length - 1];
  if (last === undefined) return null;
  const current = readKept(keptKey(place.owner, "ask", place.app, "current"));
  return { drafts, current: typeof current === "string" ? current : last.id };
}

/** Store only what has changed since the last time: the rest may belong to another window. */
export function saveWorkspace(place: TabsPlace, before: Workspace, now: Workspace): boolean {
  const known = new Map(before.drafts.map((one) => [one.id, one]));
  const stays = new Set(now.drafts.map((one) => one.id));
  for (const id of known.keys()) if (!stays.has(id)) dropKept(keyOf(place, id));
  if (before.current !== now.current) writeKept(keptKey(place.owner, "ask", place.app, "current"), now.current);
  return now.drafts.filter((one) => known.get(one.id) !== one).map((one) => saveDraft(keyOf(place, one.id), one)).every(Boolean);
}

function saveDraft(key: string, draft: Draft): boolean {
  const { query, variables, headers = "" } = draft;
  const stored = storable(headers) === headers ? draft : { ...draft, headers: "" };
  if (!isUnused(stored) && query.length + variables.length + headers.length <= mostCharacters) return writeKept(key, stored);
  dropKept(key);
  return isUnused(stored);
}

/** The workspace with what another window has kept under a key, or removed; the same where that is none of its tabs. */
export function mergeOther(place: TabsPlace, workspace: Workspace, key: string, value: unknown): Workspace {
  if (isDraft(value) && key === keyOf(place, value.id)) {
    const isKnown = workspace.drafts.some((one) => one.id === value.id);
    const drafts = isKnown ? workspace.drafts.map((one) => (one.id === value.id ? withOwnSecrets(value, one) : one)) : [...workspace.drafts, value];
    return { ...workspace, drafts };
  }
  const gone = value === null ? workspace.drafts.find((one) => key === keyOf(place, one.id)) : undefined;
  return gone === undefined ? workspace : closeDraft(workspace, gone.id);
}

/** Headers that may be secrets are in no storage: a window keeps its own. */
function withOwnSecrets(stored: Draft, { headers = "" }: Draft): Draft {
  return headers !== "" && storable(headers) === "" ? { ...stored, headers } : stored;
}

function isDraft(value: unknown): value is Draft {
  if (typeof value !== "object" || value === null) return false;
  const { id, query, variables, operation, headers = "" } = value as Partial<Record<keyof Draft, unknown>>;
  const isText = [id, query, variables, headers].every((one) => typeof one === "string");
  return isText && (operation === null || typeof operation === "string");
}
