/** The address of the page is its place: after `#` it has the query of the tab, its variables, and the view of its result. */

import { useEffect, useRef } from "preact/hooks";
import { isRecord } from "../../api/error.js";
import { go } from "../../shell/router.js";
import { type ResultView, type Shared, readShared, writePlace } from "./link.js";
import { type Draft, type Workspace, currentDraft, isFull, makeDraft } from "./workspace.js";

export interface AskPlace {
  /** The address of the page without a query. */
  readonly home: string;
  readonly hash: string;
  readonly view: ResultView;
  readonly onView: (view: ResultView) => void;
}

const delay = 300; // ms after the last key

/** Open what the address has, and write what is open into it; true: the query of a link waits for a tab to be closed. */
export function useAddress({ home, hash, view, onView }: AskPlace, workspace: Workspace, open: (draft: Draft) => boolean, select: (id: string) => void): boolean {
  const draft = currentDraft(workspace);
  const mine = draft.isExample === true ? "" : writePlace({ ...draft, view });
  const read = useRef(""); // the text after `#` that is open
  const addressed = useRef(draft.id);
  useEffect(() => {
    const shared = readShared(hash);
    if (shared === null || read.current === hash) return;
    const tab = findTab(workspace, shared) ?? { ...makeDraft(shared.query, shared.variables), operation: shared.operation };
    if (workspace.drafts.includes(tab)) select(tab.id);
    else if (!open(tab)) return;
    read.current = hash;
    addressed.current = tab.id;
    onView(shared.view);
  }, [hash, isFull(workspace)]);
  const waits = readShared(hash) !== null && read.current !== hash;
  useEffect(() => {
    if (waits || hash === mine) return undefined;
    const write = () => {
      const replace = addressed.current === draft.id || hash === ""; // Back leads to the tab before
      read.current = mine;
      addressed.current = draft.id;
      go(mine === "" ? home : `${home}#${mine}`, { replace, state: { tab: draft.id } });
    };
    const timer = setTimeout(write, delay);
    return () => clearTimeout(timer);
  }, [hash, mine, draft.id, waits]);
  return waits;
}

/** The tab of this address, whatever was written in it since (after a reload, and with Back), or one with the same query. */
function findTab({ drafts }: Workspace, { query, variables }: Shared): Draft | undefined {
  const tab = isRecord(history.state) ? history.state["tab"] : undefined;
  return drafts.find(({ id }) => id === tab) ?? drafts.find((one) => one.query === query && one.variables === variables);
}
