/** A user's tabs and history of an app, as this browser stores them. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { hearKept, keptKey } from "../../api/kept.js";
import { sessionState } from "../../api/session.js";
import { type Entry, loadHistory, remember, saveHistory } from "./history.js";
import { type AskPlace, useAddress } from "./useAddress.js";
import {
  type Draft,
  type TabsPlace,
  type Workspace,
  addDraft,
  changeDraft,
  closeDraft,
  currentDraft,
  isFull,
  loadWorkspace,
  makeDraft,
  mergeOther,
  openDraft,
  saveWorkspace,
  startWorkspace,
} from "./workspace.js";

export interface Work {
  readonly workspace: Workspace;
  readonly draft: Draft;
  readonly entries: readonly Entry[];
  /** False where the browser does not keep what is typed. */
  readonly isKept: boolean;
  /** A query was not opened, because there are too many tabs. */
  readonly isCrowded: boolean;
  /** That query is the one of a link, which opens once there is room. */
  readonly waits: boolean;
  change(change: Partial<Omit<Draft, "id">>): void;
  /** False: there is no room for another tab. */
  open(draft: Draft): boolean;
  close(id: string): void;
  select(id: string): void;
  note(draft: Draft): void;
  clearHistory(): void;
}

const savingDelay = 300; // ms

/** `owner` is the user's name, or null. */
export function useWork(owner: string | null, app: string, at: AskPlace): Work {
  const place: TabsPlace = { owner, app };
  const history = keptKey(owner, "ask", app, "history");
  const [workspace, setWorkspace] = useState(() => loadWorkspace(place) ?? startWorkspace(makeDraft()));
  const [entries, setEntries] = useState(() => loadHistory(history));
  const [isKept, setKept] = useState(true);
  const [wasRejected, setRejected] = useState(false);
  const shown = useRef({ history, owner, workspace });
  const kept = useRef(workspace);
  if (shown.current.history !== history) {
    const before = shown.current;
    const own = loadWorkspace(place);
    const next = carryOver(before.owner === null ? currentDraft(before.workspace) : null, own);
    kept.current = own ?? { drafts: [], current: "" };
    shown.current = { history, owner, workspace: next };
    setWorkspace(next);
    setEntries(loadHistory(history));
  } else shown.current.workspace = workspace;

  useLayoutEffect(() => { // immediately: the page can be closed at any moment
    const save = () => {
      if (!isOwner(owner)) return;
      setKept(saveWorkspace(place, kept.current, workspace));
      kept.current = workspace;
    };
    const timer = setTimeout(save, savingDelay);
    addEventListener("pagehide", save);
    return () => {
      clearTimeout(timer);
      removeEventListener("pagehide", save);
    };
  }, [history, workspace]);
  useEffect(() => hearKept((key, value) => {
    if (key === history) setEntries(loadHistory(history));
    const next = mergeOther(place, shown.current.workspace, key, value);
    if (next === shown.current.workspace) return;
    kept.current = mergeOther(place, kept.current, key, value); // it is kept already
    setWorkspace((now) => mergeOther(place, now, key, value));
  }), [history]);
  const open = (draft: Draft) => {
    const hasRoom = openDraft(workspace, draft) !== null;
    setRejected(!hasRoom);
    if (hasRoom) setWorkspace((now) => openDraft(now, draft) ?? addDraft(now, draft));
    return hasRoom;
  };
  const select = (id: string) => setWorkspace((now) => ({ ...now, current: id }));
  const waits = useAddress(at, workspace, open, select);

  return {
    workspace,
    draft: currentDraft(workspace),
    entries,
    isKept,
    isCrowded: wasRejected && isFull(workspace),
    waits,
    change: (change) => setWorkspace((now) => changeDraft(now, change)),
    open,
    close: (id) => setWorkspace((now) => closeDraft(now, id)),
    select,
    note: ({ query, variables, operation }) => {
      const next = remember(loadHistory(history), { query, variables, operation, at: Date.now() });
      setEntries(next);
      saveHistory(history, next);
    },
    clearHistory: () => {
      setEntries([]);
      saveHistory(history, []);
    },
  };
}

/** Whether the page still belongs to this user: after a logout, pending work must not be stored. */
function isOwner(owner: string | null): boolean {
  const { login, hasExpired } = sessionState.value;
  return hasExpired || (login?.name ?? null) === owner;
}

/** After a login, the query written before it is in the user's own tabs. */
function carryOver(draft: Draft | null, own: Workspace | null): Workspace {
  if (draft === null || draft.isExample === true || !draft.query.trim()) return own ?? startWorkspace(makeDraft());
  if (own === null) return startWorkspace(draft);
  const same = own.drafts.find(({ query, variables }) => query === draft.query && variables === draft.variables);
  return same ? { ...own, current: same.id } : addDraft(own, draft);
}
