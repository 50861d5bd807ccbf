/** The events, newest first; each opens to its full text. */

import { useState } from "preact/hooks";
import { JsonTree } from "../../parts/JsonTree.js";
import { Button, Empty } from "../../parts/basic.js";
import type { Contact } from "./follower.js";
import type { Break, Change, Happening } from "./happenings.js";
import { type Journal, isChange } from "./journal.js";
import { tellTime } from "./time.js";

interface EventListProps {
  journal: Journal;
  contact: Contact;
  /** Only events of this type; empty: all of them. */
  type: string;
}

const portion = 100;
const mostNames = 6;

export function EventList({ journal, contact, type }: EventListProps) {
  const [most, setMost] = useState(portion);
  const fitting = journal.shown.filter((one) => type === "" || !isChange(one) || one.type === type);
  if (!fitting.some(isChange)) return <><Breaks all={fitting} /><Nothing journal={journal} contact={contact} type={type} /></>;
  return (
    <>
      <ol class="live-events" aria-label="Events">
        {fitting.slice(0, most).map((one) => (isChange(one) ? <Row key={one.serial} change={one} /> : <Gap key={one.serial} gap={one} />))}
      </ol>
      {fitting.length > most && <div><Button onClick={() => setMost(most + portion)}>{fitting.length - most} more</Button></div>}
    </>
  );
}

function Row({ change }: { change: Change }) {
  const [isOpen, setOpen] = useState(false);
  const names = change.changed.slice(0, mostNames);
  const more = change.changed.length - names.length;
  return (
    <li class="live-event">
      <button type="button" class="live-row" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <time class="live-time" dateTime={change.at.toISOString()}>{tellTime(change.at)}</time>
        <span class="live-type">{change.type}</span>
        <span class="live-document">{change.document}</span>
        {names.length > 0 && <span class="soft live-changed">{names.join(", ")}{more > 0 && ` and ${more} more`}</span>}
      </button>
      {isOpen && <JsonTree value={change.fields} label="Event" />}
    </li>
  );
}

function Gap({ gap }: { gap: Break }) {
  return (
    <li class={gap.isComplete ? "live-gap" : "live-gap live-gap-open"}>
      <time class="live-time" dateTime={gap.at.toISOString()}>{tellTime(gap.at)}</time>
      <span>{gap.text}</span>
    </li>
  );
}

/** Breaks without an event between them. */
function Breaks({ all }: { all: readonly Happening[] }) {
  const gaps = all.filter((one) => !isChange(one)) as readonly Break[];
  return gaps.length === 0 ? null : <ol class="live-events" aria-label="Breaks">{gaps.map((one) => <Gap key={one.serial} gap={one} />)}</ol>;
}

function Nothing({ journal, contact, type }: EventListProps) {
  if (contact.kind !== "open") return null;
  if (journal.shown.some(isChange)) return <Empty title={`No ${type} among the events here`}><p>Choose another type above.</p></Empty>;
  return (
    <Empty title="Waiting for events">
      <p>New changes of the collection appear here. Change a document, for example on the page Data, to see one.</p>
    </Empty>
  );
}
