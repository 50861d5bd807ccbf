/** A path to type, and the streams that were opened before. */

import { useState } from "preact/hooks";
import { collectionOf } from "../../api/streams.js";
import { Button, Field } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { readPath } from "../data/places.js";
import { dropVisit, listVisits } from "../data/visits.js";
import { addressOf } from "./places.js";

export const streamVisit = "stream-visit";

export function OpenByPath({ owner, needsVisits }: { owner: string | null; needsVisits: boolean }) {
  const [path, setPath] = useState("");
  const [visits, setVisits] = useState(() => listVisits(owner, streamVisit));
  const open = (event: Event) => {
    event.preventDefault();
    const wanted = readPath(path);
    if (wanted.length > 0) go(addressOf(wanted));
  };
  const forget = (visit: string) => {
    dropVisit(owner, visit, streamVisit);
    setVisits(listVisits(owner, streamVisit));
  };
  return (
    <section class="data-others" aria-label="Other paths">
      <form class="data-open" onSubmit={open}>
        <Field label="Open by path" hint="such as notes/_streams/all, or notes for those of a collection" value={path} onInput={setPath} autocomplete="off" />
        <Button type="submit" disabled={path.trim() === ""}>Open</Button>
      </form>
      {needsVisits && visits.length > 0 && (
        <>
          <h2>Opened before</h2>
          <ul class="data-names" aria-label="Opened before">
            {visits.map((one) => (
              <li key={one}>
                <a href={addressOf(readPath(one))}>{nameOf(one)}</a>
                <Button kind="quiet" aria-label={`Forget ${nameOf(one)}`} onClick={() => forget(one)}>×</Button>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function nameOf(visit: string): string {
  const segments = readPath(visit);
  return [...collectionOf(segments), segments[segments.length - 1]].join(" / ");
}
