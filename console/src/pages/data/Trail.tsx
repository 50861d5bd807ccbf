/** The path of what is shown: each part is a link. */

import type { Segments } from "../../api/data.js";
import { addressOf } from "./places.js";

export function Trail({ segments }: { segments: Segments }) {
  if (segments.length === 0) return null;
  const above = segments.slice(0, -1);
  return (
    <nav class="data-trail" aria-label="Path">
      <a href={addressOf([])}>Data</a>
      {above.map((name, index) => <span key={index}><span class="soft"> / </span><a href={addressOf(segments.slice(0, index + 1))}>{name}</a></span>)}
    </nav>
  );
}
