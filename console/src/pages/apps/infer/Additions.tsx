/** The types and fields that the collections add to an existing definition. */

import { useState } from "preact/hooks";
import type { Additions } from "../../../api/infer.js";
import { Button, Empty } from "../../../parts/basic.js";
import { Tabs } from "../../../parts/Tabs.js";
import { Diagram, count } from "./Diagram.js";
import { LeftOut, Relations } from "./Review.js";
import { noEdits } from "./schema.js";

type TabKey = "added" | "diagram" | "left";

interface AdditionsViewProps {
  additions: Additions;
  onTake: () => void;
  onBack: () => void;
}

const none: ReadonlySet<string> = new Set();
const tabs = [
  { key: "added" as const, label: "New" },
  { key: "diagram" as const, label: "Diagram" },
  { key: "left" as const, label: "Notes" },
];

export function AdditionsView({ additions, onTake, onBack }: AdditionsViewProps) {
  const [tab, setTab] = useState<TabKey>("added");
  const { added } = additions;
  return (
    <div class="infer-review">
      <p role="status">{added.length === 0 ? "Nothing is new." : `${count(added.length, "addition")}. Your own lines stay as they are.`}</p>
      <Tabs label="What was found" tabs={tabs} selected={tab} onSelect={setTab}>
        {tab === "added" && (added.length === 0
          ? <Empty title="The definition has everything"><p>The sample shows no collection, property or relation that it does not have.</p></Empty>
          : <ul class="infer-relations" aria-label="New">{added.map((one) => <li key={one}>{one.includes(".") ? "Field" : "Type"} <strong>{one}</strong></li>)}</ul>)}
        {tab === "diagram" && <><Diagram found={additions} edits={noEdits} gone={none} /><Relations found={additions} edits={noEdits} gone={none} /></>}
        {tab === "left" && <LeftOut found={additions} />}
      </Tabs>
      <div class="infer-actions">
        {added.length > 0 && <Button kind="primary" onClick={onTake}>Add to the draft</Button>}
        <Button kind="quiet" onClick={onBack}>Choose other collections</Button>
        {added.length > 0 && <span class="soft">Nothing is stored before you save it.</span>}
      </div>
    </div>
  );
}
