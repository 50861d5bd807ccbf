/** A page of documents, with links to the next and the previous page: no earlier page is read again for it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Page, type Query, type Segments, readPage } from "../../api/data.js";
import { useCallerEffect } from "./useCallerEffect.js";

/** Where a page begins, and how many documents were seen before it. */
interface Begin {
  readonly after: string;
  readonly seen: number;
}

export interface Shown extends Page {
  readonly seen: number;
}

export interface List {
  /** What is shown; it stays while another page is on its way. */
  readonly page: Shown | null;
  readonly error: unknown;
  readonly isLoading: boolean;
  readonly hasPrevious: boolean;
  next(): void;
  previous(): void;
  first(): void;
  reload(): void;
}

const start: Begin = { after: "", seen: 0 };

export function useList(segments: Segments, { filter, sort }: Query): List {
  const [trail, setTrail] = useState<readonly Begin[]>([start]);
  const [page, setPage] = useState<Shown | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isLoading, setLoading] = useState(true);
  const [attempt, setAttempt] = useState(0);
  const asked = JSON.stringify([filter, sort]);
  const before = useRef(asked);
  // Tokens belong to their sort: another question begins at its first page.
  const here = before.current === asked ? trail : [start];
  useEffect(() => {
    if (before.current === asked) return;
    before.current = asked;
    setTrail([start]);
  }, [asked]);
  const { after, seen } = here[here.length - 1]!;
  useCallerEffect((signal) => {
    setLoading(true);
    readPage(segments, { filter, sort }, after, signal).then(
      (read) => {
        setPage({ ...read, seen });
        setError(null);
        setLoading(false);
      },
      (thrown: unknown) => {
        if (signal.aborted) return;
        setError(thrown);
        setLoading(false);
      },
    );
  }, [asked, after, attempt]);
  return {
    page,
    error,
    isLoading,
    hasPrevious: here.length > 1,
    next: () => page?.next != null && setTrail([...here, { after: page.next, seen: seen + page.documents.length }]),
    previous: () => setTrail(here.slice(0, -1)),
    first: () => setTrail([start]),
    reload: () => setAttempt((count) => count + 1),
  };
}
