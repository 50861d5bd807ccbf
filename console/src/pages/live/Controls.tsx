/** The state of the connection, the filter of events, and the buttons to pause and resume. */

import { useId } from "preact/hooks";
import { Button } from "../../parts/basic.js";
import type { Contact } from "./follower.js";
import { clear, isChange, mostKept, pause, resume } from "./journal.js";
import { tellTime } from "./time.js";
import type { Followed } from "./useFollower.js";

interface ControlsProps {
  followed: Followed;
  type: string;
  onType: (type: string) => void;
}

const usualTypes = ["insert", "update", "replace", "delete"];

export function Controls({ followed: { contact, journal, change }, type, onType }: ControlsProps) {
  const id = useId();
  const seen = journal.shown.filter(isChange).map((one) => one.type);
  const types = [...new Set([...usualTypes, ...seen])];
  const isPaused = journal.waiting !== null;
  return (
    <div class="live-controls">
      <p class={`live-contact live-${contact.kind}`} role="status">{tellContact(contact)}</p>
      <span class="live-count">{tellCount(journal.count)}</span>
      <span class="live-choice">
        <label class="soft" for={id}>Type</label>
        <select id={id} class="input" value={type} onChange={(event) => onType(event.currentTarget.value)}>
          <option value="">all</option>
          {types.map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      </span>
      <Button onClick={() => change(isPaused ? resume : pause)}>{isPaused ? "Resume" : "Pause"}</Button>
      <Button kind="quiet" disabled={journal.count === 0 && journal.shown.length === 0} onClick={() => change(clear)}>Clear</Button>
      {isPaused && <span class="live-paused">Paused: {tellCount(journal.waitingCount)} waiting</span>}
      {journal.dropped > 0 && <span class="soft">The newest {mostKept} are kept; {tellCount(journal.dropped)} dropped</span>}
    </div>
  );
}

function tellContact(contact: Contact): string {
  switch (contact.kind) {
    case "opening":
      return "Connecting …";
    case "open":
      return `Connected since ${tellTime(contact.since)}`;
    case "waiting":
      return "Connecting again …";
    default:
      return "Not connected";
  }
}

function tellCount(count: number): string {
  return `${count.toLocaleString("en")} ${count === 1 ? "event" : "events"}`;
}
