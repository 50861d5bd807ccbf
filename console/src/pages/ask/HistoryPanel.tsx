/** Queries that were run, to open again. */

import { useState } from "preact/hooks";
import { Button, Empty, Field } from "../../parts/basic.js";
import type { Entry } from "./history.js";

interface HistoryProps {
  entries: readonly Entry[];
  onOpen: (entry: Entry) => void;
  onClear: () => void;
}

const longestGist = 120; // characters

export function HistoryPanel({ entries, onOpen, onClear }: HistoryProps) {
  const [text, setText] = useState("");
  if (entries.length === 0) {
    return <Empty title="No queries yet"><p class="soft">This browser stores the queries that you run, until you log out.</p></Empty>;
  }
  const wanted = text.trim().toLowerCase();
  const shown = entries.filter(({ query }) => query.toLowerCase().includes(wanted));
  return (
    <div class="history">
      <Field label="Search the history" value={text} onInput={setText} />
      <ul class="history-list" aria-label="History">
        {shown.map((entry) => (
          <li key={`${entry.at} ${entry.query.length}`}>
            <button type="button" class="history-entry" onClick={() => onOpen(entry)}>
              <code>{gistOf(entry.query)}</code>
              <time class="soft" dateTime={new Date(entry.at).toISOString()}>{new Date(entry.at).toLocaleString()}</time>
            </button>
          </li>
        ))}
      </ul>
      <Button kind="quiet" onClick={onClear}>Clear the history</Button>
    </div>
  );
}

export function gistOf(query: string): string {
  const gist = query.replace(/#.*$/gm, "").replace(/\s+/g, " ").trim();
  return gist.length > longestGist ? `${gist.slice(0, longestGist)}…` : gist;
}
