/** The received events, newest first, with a limit; the user can pause the list. */

import type { Change, Happening } from "./happenings.js";

export interface Journal {
  readonly shown: readonly Happening[];
  /** What came during a pause; null: not paused. */
  readonly waiting: readonly Happening[] | null;
  /** Events that have come, in all. */
  readonly count: number;
  /** Events that came during a pause. */
  readonly waitingCount: number;
  /** Events that are no longer here, since others are newer. */
  readonly dropped: number;
}

export const mostKept = 500;
const mostSize = 16 << 20; // characters of all events that are kept

export const emptyJournal: Journal = { shown: [], waiting: null, count: 0, waitingCount: 0, dropped: 0 };

/** The journal with what has just come, oldest first. */
export function append(journal: Journal, came: readonly Happening[]): Journal {
  const changes = came.filter(isChange).length;
  const newest = [...came].reverse();
  const { shown, waiting } = journal;
  const count = journal.count + changes;
  if (waiting !== null) {
    const [kept, dropped] = bound([...newest, ...waiting]);
    return { shown, waiting: kept, count, waitingCount: journal.waitingCount + changes, dropped: journal.dropped + dropped };
  }
  const [kept, dropped] = bound([...newest, ...shown]);
  return { ...journal, shown: kept, count, dropped: journal.dropped + dropped };
}

export function pause(journal: Journal): Journal {
  return journal.waiting === null ? { ...journal, waiting: [], waitingCount: 0 } : journal;
}

export function resume(journal: Journal): Journal {
  if (journal.waiting === null) return journal;
  const [shown, dropped] = bound([...journal.waiting, ...journal.shown]);
  return { ...journal, shown, waiting: null, waitingCount: 0, dropped: journal.dropped + dropped };
}

/** An empty journal; a pause continues. */
export function clear(journal: Journal): Journal {
  return { ...emptyJournal, waiting: journal.waiting === null ? null : [] };
}

export function isChange(one: Happening): one is Change {
  return one.kind === "change";
}

/** The events within the limit, and the number of dropped ones. */
function bound(all: readonly Happening[]): readonly [kept: readonly Happening[], dropped: number] {
  let size = 0;
  let end = 0;
  while (end < all.length && end < mostKept) {
    const one = all[end]!;
    size += isChange(one) ? one.size : 0;
    if (size > mostSize && end > 0) break;
    end += 1;
  }
  return end === all.length ? [all, 0] : [all.slice(0, end), all.slice(end).filter(isChange).length];
}
