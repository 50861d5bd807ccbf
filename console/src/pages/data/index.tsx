/** The page Data: the names of databases and collections, or the documents of one collection. */

import { useState } from "preact/hooks";
import { type PlaceKind, type Segments, findKind } from "../../api/data.js";
import { useOwner } from "../../api/owner.js";
import { Button, ErrorNotice, Loading } from "../../parts/basic.js";
import type { PageProps } from "../../shell/pageProps.js";
import { Collection } from "./Collection.js";
import { Names } from "./Names.js";
import { readSpot } from "./places.js";
import { useCallerEffect } from "./useCallerEffect.js";

type Found = { readonly path: string; readonly kind: PlaceKind } | { readonly path: string; readonly error: unknown };

export default function DataPage({ rest, hash }: PageProps) {
  const owner = useOwner();
  const path = JSON.stringify(rest);
  const [found, retry] = useKind(rest, path);
  if (found === null || found.path !== path) return <Loading what="Loading" />;
  if ("error" in found) {
    return (
      <div class="page">
        <h1>Data</h1>
        <ErrorNotice error={found.error} title="The server did not answer" />
        <div><Button onClick={retry}>Try again</Button></div>
      </div>
    );
  }
  const key = JSON.stringify([owner, path]);
  if (found.kind === "collection") return <Collection key={key} owner={owner} segments={rest} spot={readSpot(hash)} />;
  return <Names key={key} owner={owner} segments={rest} kind={found.kind} />;
}

function useKind(segments: Segments, path: string): readonly [Found | null, () => void] {
  const [found, setFound] = useState<Found | null>(null);
  const [attempt, setAttempt] = useState(0);
  useCallerEffect((signal) => {
    findKind(segments, signal).then(
      (kind) => setFound({ path, kind }),
      (error: unknown) => signal.aborted || setFound({ path, error }),
    );
  }, [path, attempt]);
  return [found, () => setAttempt(attempt + 1)];
}
