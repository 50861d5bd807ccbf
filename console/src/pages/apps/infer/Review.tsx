/** The inferred app before anything is stored: as a diagram, and as text. */

import { useMemo, useState } from "preact/hooks";
import type { Findings, NewApp } from "../../../api/infer.js";
import { Button, Empty, Notice } from "../../../parts/basic.js";
import { Tabs } from "../../../parts/Tabs.js";
import { Diagram, count } from "./Diagram.js";
import { type Edits, type Parts, findGone, findMistakes, keyOf, noEdits, readTypes, revise } from "./schema.js";
import { TypeList } from "./TypeList.js";

type TabKey = "diagram" | "types" | "left" | "schema";

interface ReviewProps {
  app: NewApp;
  isBusy: boolean;
  /** Continue with it: in the editors, or by trying it. */
  onTake: (parts: Parts, isTrying: boolean) => void;
  onBack: () => void;
}

export function Review({ app, isBusy, onTake, onBack }: ReviewProps) {
  const [tab, setTab] = useState<TabKey>("diagram");
  const [edits, setEdits] = useState<Edits>(noEdits);
  const types = useMemo(() => readTypes(app.definition.schema), [app]);
  const gone = useMemo(() => findGone(app.definition.schema, edits.dropped), [app, edits.dropped]);
  const mistakes = useMemo(() => findMistakes(types, gone, edits), [types, gone, edits]);
  const isWrong = mistakes.size > 0;
  const kept = types.filter(({ name }) => name !== "Query" && !gone.has(name));
  const take = (isTrying: boolean) => onTake(revise(app.definition, edits), isTrying);
  const enums = kept.filter(({ isEnum, name }) => isEnum && kept.some(({ fields }) => fields.some(({ named }) => named === name))).length; // of data: one sorts lists
  const objects = kept.filter(({ isEnum }) => !isEnum).length;
  return (
    <div class="infer-review">
      <p role="status">{`${count(objects, "type")}, ${count(enums, "enum")}, ${count(app.relations.filter((one) => isKept(one, gone)).length, "relation")} found; ${count(app.leftOut.length, "property").replace("ys", "ies")} left out.`}</p>
      <Tabs label="What was found" tabs={tabsFor(app)} selected={tab} onSelect={setTab}>
        {tab === "diagram" && <><Diagram found={app} edits={edits} gone={gone} /><Relations found={app} edits={edits} gone={gone} /></>}
        {tab === "types" && <TypeList types={types} found={app} edits={edits} gone={gone} mistakes={mistakes} onEdit={setEdits} />}
        {tab === "left" && <LeftOut found={app} />}
        {tab === "schema" && <pre class="infer-text" tabIndex={0} aria-label="Schema">{isWrong ? app.definition.schema : revise(app.definition, edits).schema}</pre>}
      </Tabs>
      {isWrong && <Notice kind="error">{mistakes.get("") ?? `${count(mistakes.size, "name")} cannot be used: see Types.`}</Notice>}
      <div class="infer-actions">
        <Button kind="primary" disabled={isWrong || isBusy} onClick={() => take(false)}>Continue with this draft</Button>
        <Button disabled={isWrong || isBusy} onClick={() => take(true)}>Try it</Button>
        <Button kind="quiet" onClick={onBack}>Choose other collections</Button>
        <span class="soft">Nothing is stored before you save it.</span>
      </div>
    </div>
  );
}

function tabsFor({ leftOut, notes, relations }: Findings) {
  const others = leftOut.length + notes.length - relations.length;
  return [
    { key: "diagram" as const, label: "Diagram" },
    { key: "types" as const, label: "Types" },
    { key: "left" as const, label: others > 0 ? `Left out ${others}` : "Left out" },
    { key: "schema" as const, label: "Schema" },
  ];
}

function isKept({ type, field }: { type: string; field: string }, gone: ReadonlySet<string>): boolean {
  return !gone.has(type) && !gone.has(keyOf(type, field));
}

/** Every relation with its evidence. */
export function Relations({ found, edits, gone }: { found: Findings; edits: Edits; gone: ReadonlySet<string> }) {
  const { names } = edits;
  const kept = found.relations.filter((one) => isKept(one, gone));
  const nameOf = (type: string, field: string) => `${names.get(type) ?? type}.${names.get(keyOf(type, field)) ?? field}`;
  if (kept.length === 0) return <p class="soft">No relations were found: no field has the ids of another collection.</p>;
  return (
    <section aria-label="Relations">
      <h2>Relations</h2>
      <ul class="infer-relations">
        {kept.map((one) => {
          const target = found.collections.find(({ name }) => name === one.target)?.type ?? one.target;
          const hasBack = one.back !== null && isKept({ type: target, field: one.back }, gone);
          return (
            <li key={nameOf(one.type, one.field)}>
              <strong>{nameOf(one.type, one.field)}</strong>{` refers to ${names.get(target) ?? target}`}{hasBack && one.back !== null ? `; reverse field: ${nameOf(target, one.back)}` : ""}
              <span class="soft">{one.evidence}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** Properties that have no field, and other notes. */
export function LeftOut({ found: { leftOut, notes, relations } }: { found: Findings }) {
  const told = new Set(relations.map(({ evidence }) => evidence));
  const others = notes.filter((note) => !told.has(note));
  if (leftOut.length + others.length === 0) return <Empty title="Nothing was left out" />;
  return (
    <ul class="infer-relations" aria-label="Left out">
      {leftOut.map(({ type, name, reason }) => <li key={keyOf(type, name)}><strong>{keyOf(type, name)}</strong>{` ${reason}`}</li>)}
      {others.map((note) => <li key={note}>{note}</li>)}
    </ul>
  );
}
