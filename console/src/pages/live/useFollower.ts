/** A stream as the page shows it: how the connection is, and what has come. */

import { useEffect, useRef, useState } from "preact/hooks";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { type Contact, Follower } from "./follower.js";
import type { Happening } from "./happenings.js";
import { type Journal, append, emptyJournal } from "./journal.js";

export interface Followed {
  readonly contact: Contact;
  readonly journal: Journal;
  change(how: (journal: Journal) => Journal): void;
  /** Connect now, if it waits or was rejected. */
  retry(): void;
}

const drawEvery = 150; // ms; many events at a time are drawn together

export function useFollower(address: string): Followed {
  const { login, hasExpired } = useStore(sessionState);
  const [contact, setContact] = useState<Contact>({ kind: "opening" });
  const [journal, setJournal] = useState(emptyJournal);
  const follower = useRef<Follower | null>(null);
  useEffect(() => {
    let due: Happening[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      const came = due;
      due = [];
      timer = undefined;
      setJournal((before) => append(before, came));
    };
    const onHappening = (one: Happening) => {
      due.push(one);
      timer ??= setTimeout(draw, drawEvery);
    };
    setJournal(emptyJournal);
    const own = new Follower(address, { onContact: setContact, onHappening });
    follower.current = own;
    const hurry = () => own.connectNow();
    addEventListener("online", hurry);
    return () => {
      removeEventListener("online", hurry);
      clearTimeout(timer);
      own.stop();
    };
  }, [address]);
  // While an expired login waits for the user's choice, no request is sent without a login.
  useEffect(() => {
    if (!hasExpired) follower.current?.start();
  }, [address, login?.name, hasExpired]);
  const retry = () => {
    follower.current?.connectNow();
    follower.current?.start();
  };
  return { contact, journal, change: setJournal, retry };
}
