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
  isBusy: boolean;
  /** Add all but these to the draft. */
  onTake: (left: ReadonlySet<string>) => void;
  onBack: () => void;
}

const none: ReadonlySet<string> = new Set();
const tabs = [
  { key: "added" as const, label: "New" },
  { key: "diagram" as const, label: "Diagram" },
  { key: "left" as const, label: "Notes" },
];

export function AdditionsView({ additions, isBusy, onTake, onBack }: AdditionsViewProps) {
  const [tab, setTab] = useState<TabKey>("added");
  const [left, setLeft] = useState(none);
  const { added } = additions;
  return (
    <div class="infer-review">
      <p role="status">{added.length === 0 ? "Nothing is new." : `${count(added.length, "addition")}. Your own lines stay as they are.`}</p>
      <Tabs label="What was found" tabs={tabs} selected={tab} onSelect={setTab}>
        {tab === "added" && (added.length === 0
          ? <Empty title="The definition has everything"><p>The sample shows no collection, property or relation that it does not have.</p></Empty>
          : <Choices added={added} left={left} onChange={setLeft} />)}
        {tab === "diagram" && <><Diagram found={additions} edits={noEdits} gone={none} /><Relations found={additions} edits={noEdits} gone={none} /></>}
        {tab === "left" && <LeftOut found={additions} />}
      </Tabs>
      <div class="infer-actions">
        {added.length > 0 && <Button kind="primary" disabled={left.size === added.length || isBusy} onClick={() => onTake(left)}>{left.size === 0 ? "Add to the draft" : `Add ${added.length - left.size} of ${added.length} to the draft`}</Button>}
        <Button kind="quiet" onClick={onBack}>Choose other collections</Button>
        {added.length > 0 && <span class="soft">Nothing is stored before you save it.</span>}
      </div>
    </div>
  );
}

interface ChoicesProps {
  added: readonly string[];
  left: ReadonlySet<string>;
  onChange: (left: ReadonlySet<string>) => void;
}

function Choices({ added, left, onChange }: ChoicesProps) {
  const set = (one: string, isChosen: boolean) => onChange(new Set(isChosen ? [...left].filter((other) => other !== one) : [...left, one]));
  return (
    <>
      <p class="soft">What you leave out becomes a comment in the schema, so that it stays out when you read the collections again.</p>
      <ul class="infer-additions" aria-label="New">
        {added.map((one) => (
          <li key={one}>
            <label>
              <input type="checkbox" checked={!left.has(one)} onChange={(event) => set(one, event.currentTarget.checked)} />
              <span>{one.includes(".") ? "Field" : "Type"} <strong>{one}</strong></span>
            </label>
          </li>
        ))}
      </ul>
    </>
  );
}
