/** The inferred types and their fields, to rename or leave out. */

import { useId, useState } from "preact/hooks";
import type { Findings } from "../../../api/infer.js";
import { type Edits, type FoundType, keyOf } from "./schema.js";

interface TypeListProps {
  types: readonly FoundType[];
  found: Findings;
  edits: Edits;
  gone: ReadonlySet<string>;
  mistakes: ReadonlyMap<string, string>;
  onEdit: (edits: Edits) => void;
}

const fewEnough = 12;

export function TypeList({ types, found, edits, gone, mistakes, onEdit }: TypeListProps) {
  const [filter, setFilter] = useState("");
  const wanted = filter.trim().toLowerCase();
  const shown = types.filter(({ name, fields }) => [name, edits.names.get(name) ?? "", ...fields.map((field) => field.name)].some((text) => text.toLowerCase().includes(wanted)));
  const of = { types, found, edits, gone, mistakes, onEdit };
  return (
    <div class="infer-types">
      <p class="soft">Rename types and fields, or leave them out. You can change everything else in the definition later.</p>
      {types.length > fewEnough && <input class="input" type="search" aria-label="Filter types" placeholder="Filter by the name of a type or field" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
      <ul>{shown.map((type) => <li key={type.name}><OneType type={type} {...of} /></li>)}</ul>
      {shown.length === 0 && <p class="soft">No type or field has that in its name.</p>}
    </div>
  );
}

function OneType({ type, ...of }: TypeListProps & { type: FoundType }) {
  const { found, edits, gone, mistakes } = of;
  const [isOpen, setOpen] = useState(false);
  const collection = found.collections.find((one) => one.type === type.name);
  const own = type.fields.map(({ name }) => keyOf(type.name, name));
  const hasMistake = [type.name, ...own].some((key) => mistakes.has(key));
  const isGone = gone.has(type.name);
  const kind = type.name === "Query" ? "what clients can ask" : type.isEnum ? "enum" : collection === undefined ? "object" : collection.name;
  const size = type.isEnum ? `${type.fields.length} values` : `${type.fields.filter((field) => !gone.has(keyOf(type.name, field.name))).length} of ${type.fields.length} fields`;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong class={isGone ? "infer-gone" : undefined}>{edits.names.get(type.name) ?? type.name}</strong>
        <span class="soft">{` ${kind} · ${isGone ? "left out" : size}`}</span>
        {hasMistake && <span class="apps-bad"> · a name is wrong</span>}
      </summary>
      {isOpen && (
        <div class="infer-fields">
          {type.name !== "Query" && <Entry {...of} id={type.name} name={type.name} about={kind} canDrop={!type.isEnum} />}
          {type.isEnum
            ? <p class="soft">{type.fields.map(({ name }) => name).join(", ")}</p>
            : <ul>{type.fields.map((field) => <li key={field.name}><Entry {...of} id={keyOf(type.name, field.name)} name={field.name} about={renameIn(field.type, field.named, edits)} canDrop /></li>)}</ul>}
        </div>
      )}
    </details>
  );
}

function renameIn(type: string, named: string, { names }: Edits): string {
  return type.replace(named, names.get(named) ?? named);
}

interface EntryProps extends TypeListProps {
  id: string;
  name: string;
  about: string;
  canDrop: boolean;
}

function Entry({ id, name, about, canDrop, edits, gone, mistakes, onEdit }: EntryProps) {
  const label = useId();
  const mistake = mistakes.get(id);
  const isIn = !edits.dropped.has(id);
  const drop = (isDropped: boolean) => {
    const dropped = new Set(edits.dropped);
    if (isDropped) dropped.add(id);
    else dropped.delete(id);
    onEdit({ ...edits, dropped });
  };
  const rename = (next: string) => {
    const names = new Map(edits.names);
    if (next === name) names.delete(id);
    else names.set(id, next);
    onEdit({ ...edits, names });
  };
  return (
    <div class="infer-entry">
      {canDrop && <input type="checkbox" aria-label={`Include ${id}`} checked={isIn} onChange={(event) => drop(!event.currentTarget.checked)} />}
      <input class="input" aria-label={`Name of ${id}`} value={edits.names.get(id) ?? name} disabled={gone.has(id)} spellcheck={false} autocomplete="off" aria-invalid={mistake !== undefined} aria-describedby={mistake === undefined ? undefined : label} onInput={(event) => rename(event.currentTarget.value)} />
      <code>{about}</code>
      {isIn && gone.has(id) && <span class="soft">left out with its type</span>}
      {mistake !== undefined && <span id={label} class="apps-bad">{mistake}</span>}
    </div>
  );
}
