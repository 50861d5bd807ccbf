/** One collection: its documents or its indexes. */

import { useEffect } from "preact/hooks";
import { type Segments, dataPath } from "../../api/data.js";
import { useRights } from "../../api/rights.js";
import { Tabs } from "../../parts/Tabs.js";
import { go } from "../../shell/router.js";
import { Documents } from "./Documents.js";
import { Indexes } from "./Indexes.js";
import { type Spot, type View, addressOf } from "./places.js";
import { Schema } from "./Schema.js";
import { Trail } from "./Trail.js";
import { keepVisit } from "./visits.js";

interface CollectionProps {
  owner: string | null;
  segments: Segments;
  spot: Spot;
}

const documents = { key: "documents" as View, label: "Documents" };
const schema = { key: "schema" as View, label: "Schema" };
const indexes = { key: "indexes" as View, label: "Indexes" };

export function Collection({ owner, segments, spot }: CollectionProps) {
  useEffect(() => keepVisit(owner, segments), []);
  const indexPath = dataPath([...segments, "_indexes"]);
  const rights = useRights([indexPath]);
  const hasIndexes = rights.may("GET", indexPath);
  const view = rights.isKnown && !hasIndexes && spot.view === "indexes" ? "documents" : spot.view;
  const select = (view: View) => go(addressOf(segments, { ...spot, view }), { replace: true, state: history.state });
  return (
    <div class="page data-work">
      <Trail segments={segments} />
      <h1>{segments[segments.length - 1] ?? "Data"}</h1>
      <Tabs label="Parts of the collection" tabs={hasIndexes || view === "indexes" ? [documents, schema, indexes] : [documents, schema]} selected={view} onSelect={select}>
        {view === "documents" ? <Documents owner={owner} segments={segments} spot={spot} /> : view === "schema" ? <Schema segments={segments} spot={spot} /> : <Indexes segments={segments} />}
      </Tabs>
    </div>
  );
}
