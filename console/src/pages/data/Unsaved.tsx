/** The documents below a path that have unsaved changes in this browser, or are new. */

import type { Segments } from "../../api/data.js";
import { parseTyped } from "../../api/typed.js";
import { useKeptNames } from "../../api/unsaved.js";
import { addressOf, everything, readPath } from "./places.js";

const most = 20;

export function Unsaved({ owner, segments }: { owner: string | null; segments: Segments }) {
  const changed = useKeptNames(owner, "document");
  const added = useKeptNames(owner, "new-document");
  const all = [...added, ...changed].flatMap(([path = "", id]) => describe(readPath(path), id)).filter((one) => segments.every((name, index) => one.segments[index] === name));
  if (all.length === 0) return null;
  return (
    <section class="data-unsaved" aria-label="Unsaved documents">
      <h2>Unsaved documents</h2>
      <ul class="data-names">
        {all.slice(0, most).map(({ address, segments: path, name }) => (
          <li key={address}><a href={address}>{[...path.slice(segments.length), name].join(" / ")}</a></li>
        ))}
      </ul>
      {all.length > most && <p class="soft">{all.length - most} more</p>}
    </section>
  );
}

/** Where a document is, by what the browser stores of it. */
function describe(segments: Segments, id: string | undefined) {
  if (id === undefined) return [{ segments, name: "new document", address: addressOf(segments, { ...everything, isNew: true }) }];
  try {
    return [{ segments, name: id, address: addressOf(segments, { ...everything, id: parseTyped(id) }) }];
  } catch {
    return []; // not written by the console
  }
}
