/** The types and their relations as boxes and lines; the list below it is the same as text. */

import { useId, useMemo } from "preact/hooks";
import type { Findings } from "../../../api/infer.js";
import { type Box, boxWidth, drawLink, layOut } from "./layout.js";
import { type Edits, keyOf } from "./schema.js";

interface DiagramProps {
  found: Findings;
  edits: Edits;
  gone: ReadonlySet<string>;
}

interface Entity {
  readonly id: string; // the name of its collection
  readonly title: string;
  readonly about: string;
  readonly rows: readonly string[];
}

interface Line {
  readonly from: string;
  readonly to: string;
  readonly name: string;
}

const mostRows = 6;
const mostLetters = 27;
const rowHeight = 17;
const headHeight = 42;

export function Diagram({ found, edits, gone }: DiagramProps) {
  const id = useId();
  const { entities, lines } = useMemo(() => readDiagram(found, edits, gone), [found, edits, gone]);
  const layout = useMemo(() => layOut(entities.map((one) => ({ id: one.id, height: heightOf(one) })), lines.map(({ from, to }) => [from, to])), [entities, lines]);
  return (
    <div class="infer-diagram" role="region" aria-label="Diagram" tabIndex={0}>
      <svg role="img" aria-labelledby={`${id}-title`} width={layout.width} height={layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`}>
        <title id={`${id}-title`}>{`${count(entities.length, "type")}, ${count(lines.length, "relation")}; the list of relations says the same`}</title>
        {lines.map(({ from, to, name }) => <Connection key={`${from} ${name}`} from={layout.boxes.get(from)} to={layout.boxes.get(to)} />)}
        {entities.map((entity) => <EntityBox key={entity.id} entity={entity} box={layout.boxes.get(entity.id)} />)}
      </svg>
    </div>
  );
}

function readDiagram({ collections, relations }: Findings, { names }: Edits, gone: ReadonlySet<string>): { entities: readonly Entity[]; lines: readonly Line[] } {
  const kept = collections.filter(({ type }) => !gone.has(type));
  const there = new Set(kept.map(({ name }) => name));
  const own = relations.filter(({ type, field, source, target }) => !gone.has(type) && !gone.has(keyOf(type, field)) && there.has(source) && there.has(target));
  const typeOf = new Map(kept.map(({ name, type }) => [name, names.get(type) ?? type]));
  const rowOf = (type: string, field: string, target: string) => `${names.get(keyOf(type, field)) ?? field} → ${typeOf.get(target) ?? target}`;
  const entities = kept.map(({ name, type, documents }) => ({
    id: name,
    title: names.get(type) ?? type,
    about: documents === null ? name : `${name} · ${documents.toLocaleString("en")}`,
    rows: own.filter(({ source }) => source === name).map((one) => rowOf(one.type, one.field, one.target)),
  }));
  return { entities, lines: own.map(({ source, target, type, field }) => ({ from: source, to: target, name: keyOf(type, field) })) };
}

function heightOf({ rows }: Entity): number {
  return headHeight + Math.min(rows.length, mostRows) * rowHeight + (rows.length > 0 ? 8 : 0);
}

function Connection({ from, to }: { from: Box | undefined; to: Box | undefined }) {
  if (from === undefined || to === undefined || from === to) return null;
  return <path class="infer-line" d={drawLink(from, to)} fill="none" />;
}

function EntityBox({ entity: { title, about, rows }, box }: { entity: Entity; box: Box | undefined }) {
  if (box === undefined) return null;
  const shown = rows.length > mostRows ? [...rows.slice(0, mostRows - 1), `${rows.length - mostRows + 1} more`] : rows;
  return (
    <g transform={`translate(${box.x} ${box.y})`}>
      <title>{[title, about, ...rows].join("\n")}</title>
      <rect class="infer-box" width={boxWidth} height={box.height} rx={8} />
      <text class="infer-box-title" x={12} y={19}>{shorten(title)}</text>
      <text class="infer-box-about" x={12} y={34}>{shorten(about)}</text>
      {shown.map((row, index) => <text key={row} class="infer-box-row" x={12} y={headHeight + 13 + index * rowHeight}>{shorten(row)}</text>)}
    </g>
  );
}

function shorten(text: string): string {
  return text.length > mostLetters ? `${text.slice(0, mostLetters - 1)}…` : text;
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
