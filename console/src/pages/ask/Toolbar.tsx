/** What can be done with the query. */

import { useId } from "preact/hooks";
import { Button, CopyButton } from "../../parts/basic.js";
import type { Reading } from "./operations.js";
import { namesOf } from "./operations.js";

interface ToolbarProps {
  reading: Reading;
  operation: string | null;
  isRunning: boolean;
  side: "docs" | "history" | null;
  link: () => string;
  onOperation: (name: string | null) => void;
  onRun: () => void;
  onCancel: () => void;
  onPrettify: () => void;
  onSide: (side: "docs" | "history" | null) => void;
}

export function Toolbar({ reading, operation, isRunning, side, link, onOperation, onRun, onCancel, onPrettify, onSide }: ToolbarProps) {
  const id = useId();
  const names = namesOf(reading);
  const toggle = (which: "docs" | "history") => onSide(side === which ? null : which);
  return (
    <div class="ask-toolbar" role="toolbar" aria-label="Query">
      {isRunning ? <Button kind="danger" onClick={onCancel}>Cancel</Button> : <Button kind="primary" title="Ctrl-Enter" onClick={onRun}>Run</Button>}
      {reading.operations.length > 1 && (
        <div class="ask-operation">
          <label for={id}>Operation</label>
          <select id={id} class="input" value={operation ?? names[0] ?? ""} onChange={(event) => onOperation(event.currentTarget.value)}>
            {names.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </div>
      )}
      <Button kind="quiet" title="Shift-Alt-F" onClick={onPrettify}>Prettify</Button>
      <CopyButton text={link} label="Copy link" />
      <span class="ask-toolbar-gap" />
      <Button kind="quiet" aria-pressed={side === "history"} onClick={() => toggle("history")}>History</Button>
      <Button kind="quiet" aria-pressed={side === "docs"} onClick={() => toggle("docs")}>Docs</Button>
    </div>
  );
}
