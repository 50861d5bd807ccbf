/** What can be done with the query. */

import { useId } from "preact/hooks";
import { Button, CopyButton } from "../../parts/basic.js";
import { CopyAs } from "./CopyAs.js";
import type { Reading } from "./operations.js";
import type { SideKind } from "./Side.js";
import { namesOf } from "./operations.js";
import type { Sent } from "./snippets.js";

interface ToolbarProps {
  reading: Reading;
  operation: string | null;
  isRunning: boolean;
  /** A live query is followed. */
  isFollowing: boolean;
  /** Whether the operation is live; null: it cannot be. */
  isLive: boolean | null;
  side: SideKind | null;
  link: () => string;
  /** The request of the query; null: no program of the caller can send it. */
  sent: (() => Sent) | null;
  onOperation: (name: string | null) => void;
  onRun: () => void;
  onCancel: () => void;
  onPrettify: () => void;
  onLive: () => void;
  onSide: (side: SideKind | null) => void;
}

export function Toolbar({ reading, operation, isRunning, isFollowing, isLive, side, link, sent, onOperation, onRun, onCancel, onPrettify, onLive, onSide }: ToolbarProps) {
  const id = useId();
  const names = namesOf(reading);
  const toggle = (which: SideKind) => onSide(side === which ? null : which);
  return (
    <div class="ask-toolbar" role="toolbar" aria-label="Query">
      {isFollowing ? <Button kind="danger" onClick={onCancel}>Stop</Button> : isRunning ? <Button kind="danger" onClick={onCancel}>Cancel</Button> : <Button kind="primary" title="Ctrl-Enter" onClick={onRun}>Run</Button>}
      {reading.operations.length > 1 && (
        <div class="ask-operation">
          <label for={id}>Operation</label>
          <select id={id} class="input" value={operation ?? names[0] ?? ""} onChange={(event) => onOperation(event.currentTarget.value)}>
            {names.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </div>
      )}
      <Button kind="quiet" title="Shift-Alt-F" onClick={onPrettify}>Prettify</Button>
      {isLive !== null && <Button kind="quiet" aria-pressed={isLive} title="Send the answer again whenever it changes" onClick={onLive}>Live</Button>}
      <CopyButton text={link} label="Copy link" />
      {sent !== null && <CopyAs sent={sent} />}
      <span class="ask-toolbar-gap" />
      <Button kind="quiet" aria-pressed={side === "saved"} onClick={() => toggle("saved")}>Saved</Button>
      <Button kind="quiet" aria-pressed={side === "history"} onClick={() => toggle("history")}>History</Button>
      <Button kind="quiet" aria-pressed={side === "docs"} onClick={() => toggle("docs")}>Docs</Button>
    </div>
  );
}
