/** Documents as a table; its columns are the names that they have. */

import type { Segments } from "../../api/data.js";
import { type DocumentId, nameOfId } from "../../api/ids.js";
import { useKeptNames } from "../../api/unsaved.js";
import { type Fields, type Value, isFields, writeTyped } from "../../api/typed.js";
import { Scalar } from "../../parts/json.js";
import { type Column, Table } from "../../parts/Table.js";
import { type Spot, addressOf, start } from "./places.js";
import { chooseColumns } from "./columns.js";
import { pathText } from "./visits.js";

const mostSigns = 80; // of a value in a cell

interface DocumentTableProps {
  owner: string | null;
  segments: Segments;
  spot: Spot;
  documents: readonly Fields[];
}

export function DocumentTable({ owner, segments, spot, documents }: DocumentTableProps) {
  const unsaved = useUnsaved(owner, segments);
  const { names: shown, left } = chooseColumns(documents);
  const open = spot.id === undefined ? null : writeTyped(spot.id, 0);
  const columns: readonly Column<Fields>[] = shown.map((name) => ({
    title: name,
    head: <SortLink segments={segments} spot={spot} name={name} />,
    sorted: sortedBy(spot.sort, name),
    isNumber: documents.every((one) => isNumeric(one.get(name))),
    render: (document) => (name === "_id" ? <IdCell segments={segments} spot={spot} id={document.get("_id")} open={open} unsaved={unsaved} /> : <Cell value={document.get(name)} />),
  }));
  return (
    <>
      <Table label="Documents" columns={columns} rows={documents} rowKey={(document, index) => (document.has("_id") ? writeTyped(document.get("_id")!, 0) : index)} />
      {left > 0 && <p class="soft">{left} more names have no column here: open a document to see all of it.</p>}
    </>
  );
}

/** The ids of documents that this browser keeps changes of, as text. */
function useUnsaved(owner: string | null, segments: Segments): ReadonlySet<string> {
  return new Set(useKeptNames(owner, "document", pathText(segments)).map(([id]) => id ?? ""));
}

function isNumeric(value: Value | undefined): boolean {
  return value === undefined || value === null || (value instanceof Scalar && /^(Int|Double|Decimal)/.test(value.type));
}

function sortedBy(sort: string, name: string): "ascending" | "descending" | undefined {
  if (sort === `-${name}` || sort === orderOf(name, -1)) return "descending";
  return sort === name || sort === `+${name}` || sort === orderOf(name, 1) ? "ascending" : undefined;
}

function orderOf(name: string, direction: 1 | -1): string {
  return `{${JSON.stringify(name)}: ${direction}}`;
}

/** Each time the other direction. A name that MongoDB reads as a place or an operator cannot be sorted by. */
function SortLink({ segments, spot, name }: { segments: Segments; spot: Spot; name: string }) {
  if (name === "" || name.includes(".") || name.startsWith("$")) return <>{name}</>;
  const sorted = sortedBy(spot.sort, name);
  const arrow = sorted === undefined ? "" : sorted === "ascending" ? " ↑" : " ↓";
  const sort = orderOf(name, sorted === "ascending" ? -1 : 1);
  return <a class="data-sort-link" href={addressOf(segments, { ...spot, sort, begin: start })} title={`Sort by ${name}`}>{name}{arrow}</a>;
}

function IdCell({ segments, spot, id, open, unsaved }: { segments: Segments; spot: Spot; id: DocumentId | undefined; open: string | null; unsaved: ReadonlySet<string> }) {
  if (id === undefined) return <span class="soft">not shown</span>;
  const text = writeTyped(id, 0);
  return (
    <>
      <a href={addressOf(segments, { ...spot, id, isNew: false })} aria-current={text === open ? "true" : undefined}>{cut(nameOfId(id)) || '""'}</a>
      {unsaved.has(text) && <> <span class="chip">unsaved</span></>}
    </>
  );
}

function Cell({ value }: { value: Value | undefined }) {
  if (value === undefined) return null;
  if (value === null) return <span class="soft">null</span>;
  if (typeof value === "string") return <>{cut(value)}</>;
  if (value instanceof Scalar) return <span title={value.type}>{cut(value.text)}</span>;
  if (typeof value === "boolean") return <>{String(value)}</>;
  const [count, what] = isFields(value) ? [value.size, "{ … }"] : [value.length, "[ … ]"];
  return <span class="soft">{isSmall(value) ? cut(writeTyped(value, 0)) : `${what} ${count}`}</span>;
}

/** Few values that are no objects themselves. */
function isSmall(value: readonly Value[] | Fields): boolean {
  const values = isFields(value) ? [...value.values()] : value;
  return values.length <= 4 && values.every((one) => one === null || typeof one !== "object" || one instanceof Scalar);
}

function cut(text: string): string {
  return text.length <= mostSigns ? text : `${text.slice(0, mostSigns)}…`;
}
