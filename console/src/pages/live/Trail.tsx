/** The path of a stream: the page itself, and its collection. */

import type { Segments } from "../../api/data.js";
import { collectionOf, isStream } from "../../api/streams.js";
import { addressOf } from "./places.js";

export function Trail({ segments }: { segments: Segments }) {
  if (segments.length === 0) return null;
  const collection = isStream(segments) ? collectionOf(segments) : [];
  return (
    <nav class="data-trail" aria-label="Path">
      <a href={addressOf([])}>Live</a>
      {collection.length > 0 && <><span class="soft"> / </span><a href={addressOf(collection)}>{collection.join(" / ")}</a></>}
    </nav>
  );
}
