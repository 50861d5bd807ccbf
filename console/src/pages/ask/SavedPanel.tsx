/** Queries with a name, to open again. */

import { useEffect, useState } from "preact/hooks";
import { hearKept } from "../../api/kept.js";
import { Button, Empty, Field, Notice } from "../../parts/basic.js";
import { gistOf } from "./HistoryPanel.js";
import { type SavedPlace, type SavedQuery, dropSaved, isSavedKey, listSaved, loadSaved, longestName, saveQuery } from "./saved.js";
import { type Draft, titleOf } from "./workspace.js";

interface SavedPanelProps {
  place: SavedPlace;
  draft: Draft;
  onOpen: (saved: SavedQuery) => void;
}

export function SavedPanel({ place, draft, onOpen }: SavedPanelProps) {
  const saved = useSaved(place);
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const shown = saved.filter((one) => `${one.name} ${one.query}`.toLowerCase().includes(wanted));
  return (
    <div class="history">
      <SaveForm key={draft.id} place={place} draft={draft} />
      {saved.length > 5 && <Field label="Search the saved queries" value={text} onInput={setText} />}
      {saved.length === 0 && <Empty title="No saved queries yet"><p class="soft">Give the query of this tab a name to find it again.</p></Empty>}
      {saved.length > 0 && (
        <ul class="history-list" aria-label="Saved queries">
          {shown.map((one) => (
            <li key={one.name} class="saved-line">
              <button type="button" class="history-entry" onClick={() => onOpen(one)}>
                <strong>{one.name}</strong>
                <code>{gistOf(one.query)}</code>
              </button>
              <Button kind="quiet" aria-label={`Delete ${one.name}`} title="Delete" onClick={() => dropSaved(place, one.name)}>×</Button>
            </li>
          ))}
        </ul>
      )}
      <p class="soft">Only this browser has them. {place.owner !== null && "Logging out deletes them: copy a link to keep one."}</p>
    </div>
  );
}

function SaveForm({ place, draft }: { place: SavedPlace; draft: Draft }) {
  const title = titleOf(draft);
  const [name, setName] = useState<string | null>(null);
  const [said, setSaid] = useState<{ readonly fault: string | null; readonly name: string } | null>(null);
  const given = name ?? (title === "Untitled" ? "" : title);
  const isKnown = given.trim() !== "" && loadSaved(place, given.trim()) !== null;
  const save = (event: Event) => {
    event.preventDefault();
    const { query, variables, headers = "" } = draft;
    const entry = { name: given.trim(), query, variables, headers, at: Date.now() };
    setSaid({ fault: saveQuery(place, entry), name: entry.name });
  };
  return (
    <form class="saved-form" onSubmit={save}>
      <Field label="Name" value={given} onInput={(value) => { setName(value.slice(0, longestName)); setSaid(null); }} autocomplete="off" />
      <Button type="submit" disabled={given.trim() === "" || draft.query.trim() === ""}>{isKnown ? "Replace" : "Save"}</Button>
      {said !== null && (said.fault === null ? <p class="soft" role="status">Saved as {said.name}.</p> : <Notice kind="error">{said.fault}</Notice>)}
    </form>
  );
}

/** The saved queries as they are now, also by what other windows do. */
function useSaved(place: SavedPlace): readonly SavedQuery[] {
  const [saved, setSaved] = useState(() => listSaved(place));
  useEffect(() => {
    setSaved(listSaved(place));
    return hearKept((key) => {
      if (isSavedKey(place, key)) setSaved(listSaved(place));
    }, true);
  }, [place.owner, place.app]);
  return saved;
}
