/** What the server finds wrong with a filter or a sort, while it is typed; no documents are read. */

import { useEffect, useState } from "preact/hooks";
import { type Query, type Segments, checkQuery } from "../../api/data.js";
import { ApiError } from "../../api/error.js";
import type { Finding } from "../../parts/Editor.js";

export interface QueryFindings {
  readonly filter: readonly Finding[];
  readonly sort: string | null;
}

const nothing: QueryFindings = { filter: [], sort: null };
const delay = 300; // ms after the last key

export function useQueryCheck(segments: Segments, { filter, sort }: Query): QueryFindings {
  const [findings, setFindings] = useState(nothing);
  useEffect(() => {
    if (filter.trim() === "" && sort.trim() === "") {
      setFindings(nothing);
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      checkQuery(segments, { filter, sort }, controller.signal).then(
        () => setFindings(nothing),
        (error: unknown) => controller.signal.aborted || setFindings(readFindings(error)),
      );
    }, delay);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [filter, sort]);
  return findings;
}

/** Only what is wrong with the query: all other errors appear in place of the documents. */
function readFindings(error: unknown): QueryFindings {
  if (!(error instanceof ApiError) || error.status !== 400) return nothing;
  if (/^(invalid|wrong|illegal) sort/i.test(error.message)) return { filter: [], sort: error.message };
  const place = /line (\d+), column (\d+): ([^]*)$/.exec(error.message);
  const finding: Finding = { line: Number(place?.[1] ?? 1), column: Number(place?.[2] ?? 1), severity: "error", message: place?.[3] ?? error.message };
  return { filter: [finding], sort: null };
}
