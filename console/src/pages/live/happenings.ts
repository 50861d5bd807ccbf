/** The content of a stream: events, and gaps between them. */

import { Scalar } from "../../parts/json.js";
import { nameOfId } from "../../api/ids.js";
import { type Fields, type Value, isFields, parseFields } from "../../api/typed.js";

export interface Change {
  readonly kind: "change";
  readonly serial: number;
  readonly type: string;
  /** When it happened, by the clock of the database; by that of the browser where the caller does not get the time. */
  readonly at: Date;
  /** The `_id` of the document, as people call it; empty where the event is about none. */
  readonly document: string;
  /** Names of the fields that an update has changed or removed. */
  readonly changed: readonly string[];
  readonly fields: Fields;
  /** Characters of the event as it came. */
  readonly size: number;
}

/** The connection was lost here, or the stream has restarted. */
export interface Break {
  readonly kind: "break";
  readonly serial: number;
  readonly at: Date;
  readonly isComplete: boolean;
  readonly text: string;
}

export type Happening = Change | Break;

/** Parse the text of an event. */
export function readChange(serial: number, text: string): Change {
  const told = parseFields(text);
  const key = told.get("documentKey");
  const id = isFields(key) ? key.get("_id") : undefined;
  const type = told.get("operationType");
  return {
    kind: "change",
    serial,
    type: typeof type === "string" ? type : "event",
    at: timeOf(told.get("clusterTime")) ?? new Date(),
    document: id === undefined ? "" : nameOfId(id),
    changed: namesOfChanges(told.get("updateDescription")),
    fields: new Map([...told].filter(([name]) => name !== "_id")),
    size: text.length,
  };
}

/** The seconds of a timestamp of the database, such as `7, 3`. */
function timeOf(value: Value | undefined): Date | null {
  if (!(value instanceof Scalar) || value.type !== "Timestamp") return null;
  const seconds = Number.parseInt(value.text, 10);
  return Number.isFinite(seconds) ? new Date(seconds * 1000) : null;
}

function namesOfChanges(description: Value | undefined): readonly string[] {
  if (!isFields(description)) return [];
  const updated = description.get("updatedFields");
  const removed = description.get("removedFields");
  const names = [...(isFields(updated) ? updated.keys() : []), ...(Array.isArray(removed) ? removed.map(String) : [])];
  return names.filter((name) => name !== "_etag");
}
