/** A page of documents, with links to the next and the previous page: no earlier page is read again for it. */

import { useState } from "preact/hooks";
import { type Page, type Query, type Segments, readPage } from "../../api/data.js";
import { type Begin, start } from "./places.js";
import { useCallerEffect } from "./useCallerEffect.js";

/** The beginnings of the pages up to the one that is shown, and how to go to another. */
export type Trail = readonly [trail: readonly Begin[], go: (trail: readonly Begin[]) => void];

export interface Shown extends Page {
  readonly seen: number;
}

export interface List {
  /** What is shown; it stays while another page is on its way. */
  readonly page: Shown | null;
  readonly error: unknown;
  readonly isLoading: boolean;
  /** False on the first page, and where a link led to this one: it does not know those before it. */
  readonly hasPrevious: boolean;
  readonly isFirst: boolean;
  next(): void;
  previous(): void;
  first(): void;
  reload(): void;
}

/** The trail of a list whose pages are not in the address; tokens belong to their sort: another question begins at its first page. */
export function useOwnTrail(query: Query): Trail {
  const asked = JSON.stringify(query);
  const [kept, setKept] = useState<{ asked: string; trail: readonly Begin[] }>({ asked, trail: [start] });
  return [kept.asked === asked ? kept.trail : [start], (trail) => setKept({ asked, trail })];
}

export function useList(segments: Segments, { filter, sort }: Query, [here, setTrail]: Trail): List {
  const [page, setPage] = useState<Shown | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isLoading, setLoading] = useState(true);
  const [attempt, setAttempt] = useState(0);
  const asked = JSON.stringify([filter, sort]);
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
    isFirst: after === "",
    next: () => page?.next != null && setTrail([...here, { after: page.next, seen: seen + page.documents.length }]),
    previous: () => setTrail(here.slice(0, -1)),
    first: () => setTrail([start]),
    reload: () => setAttempt((count) => count + 1),
  };
}
