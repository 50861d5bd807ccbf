/** One collection: its documents or its indexes. */

import { useEffect } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { Tabs } from "../../parts/Tabs.js";
import { go } from "../../shell/router.js";
import { Documents } from "./Documents.js";
import { Indexes } from "./Indexes.js";
import { type Spot, type View, addressOf } from "./places.js";
import { Trail } from "./Trail.js";
import { keepVisit } from "./visits.js";

interface CollectionProps {
  owner: string | null;
  segments: Segments;
  spot: Spot;
}

const tabs: readonly { key: View; label: string }[] = [
  { key: "documents", label: "Documents" },
  { key: "indexes", label: "Indexes" },
];

export function Collection({ owner, segments, spot }: CollectionProps) {
  useEffect(() => keepVisit(owner, segments), []);
  const select = (view: View) => go(addressOf(segments, { ...spot, view }), { replace: true });
  return (
    <div class="page data-work">
      <Trail segments={segments} />
      <h1>{segments[segments.length - 1] ?? "Data"}</h1>
      <Tabs label="Parts of the collection" tabs={tabs} selected={spot.view} onSelect={select}>
        {spot.view === "documents" ? <Documents owner={owner} segments={segments} spot={spot} /> : <Indexes segments={segments} />}
      </Tabs>
    </div>
  );
}
