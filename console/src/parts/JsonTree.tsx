/** JSON as a tree that opens level by level; large lists are shown in portions. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { LeafEditor, type Editing } from "./LeafEditor.js";
import { Numeral, Scalar } from "./json.js";

const portion = 100;
const longestText = 2000; // characters of a value that are shown first
const mostOpened = 400; // values that are open at the start

type Step = string | number;

/** A value to go to; another `serial` goes there again. */
export interface Reveal {
  readonly path: readonly Step[];
  readonly serial: number;
}

interface TreeProps {
  value: unknown;
  label: string;
  openLevels?: number;
  reveal?: Reveal;
  /** How values are edited in place. */
  editing?: Editing;
}

interface NodeProps {
  name: string | null;
  path: readonly Step[];
  editing: Editing | undefined;
  value: unknown;
  openLevels: number;
  /** The path from here; undefined: the value to reveal is elsewhere. */
  reveal: Reveal | undefined;
}

export function JsonTree({ value, label, openLevels = 2, reveal, editing }: TreeProps) {
  const [levels] = useState(() => levelsThatFit(value, openLevels));
  return (
    <ul class="json" aria-label={label}>
      <Node name={null} path={[]} editing={editing} value={value} openLevels={levels} reveal={reveal} />
    </ul>
  );
}

/** As many levels as requested, or as one can read. */
function levelsThatFit(value: unknown, wanted: number): number {
  let level: readonly unknown[] = [value];
  let count = 0;
  for (let depth = 0; depth < wanted; depth += 1) {
    level = level.flatMap((one) => (isBranch(one) ? [...valuesOf(one)].slice(0, portion) : []));
    count += level.length;
    if (count > mostOpened) return Math.max(depth, 1);
  }
  return wanted;
}

function isBranch(value: unknown): value is object {
  return typeof value === "object" && value !== null && !(value instanceof Numeral) && !(value instanceof Scalar);
}

/** A map is an object whose names keep their order, whatever they are. */
function namesOf(value: object): readonly string[] {
  return value instanceof Map ? [...(value as Map<string, unknown>).keys()] : Object.keys(value);
}

function valuesOf(value: object): Iterable<unknown> {
  return value instanceof Map ? (value as Map<string, unknown>).values() : Object.values(value);
}

function Node({ name, path, editing, value, openLevels, reveal }: NodeProps) {
  const [isOpen, setOpen] = useState(openLevels > 0);
  const [[first, end], setShown] = useState([0, portion]);
  const line = useRef<HTMLElement>(null);
  const step = reveal?.path[0];
  useLayoutEffect(() => { // immediately: the next key belongs to the value
    if (reveal === undefined) return;
    if (step === undefined || !isBranch(value)) return showLine(line.current);
    const index = Array.isArray(value) ? Number(step) : namesOf(value).indexOf(String(step));
    setOpen(true);
    if (index >= end || index < first) setShown([Math.floor(index / portion) * portion, (Math.floor(index / portion) + 1) * portion]);
  }, [reveal?.serial]);
  if (!isBranch(value)) {
    return <li class="json-leaf"><span ref={line} tabIndex={-1}>{name !== null && <Name name={name} />}<LeafEditor path={path} value={value} editing={editing}><Leaf value={value} /></LeafEditor></span></li>;
  }
  const isList = Array.isArray(value);
  const names = isList ? null : namesOf(value);
  const count = isList ? value.length : (names?.length ?? 0);
  const [open, close] = isList ? "[]" : "{}";
  const shown = isOpen ? Array.from({ length: Math.max(0, Math.min(end, count) - first) }, (_, at) => names?.[first + at] ?? String(first + at)) : [];
  const childOf = (key: string) => (value instanceof Map ? (value as Map<string, unknown>).get(key) : (value as Readonly<Record<string, unknown>>)[key]);
  return (
    <li>
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} ref={(node) => void (line.current = node)}>
        {name !== null && <Name name={name} />}
        <span class="soft">{isOpen ? open : `${open} ${count} ${close}`}</span>
      </button>
      {isOpen && (
        <ul>
          {first > 0 && <More text={`${first} before`} onClick={() => setShown([Math.max(0, first - portion * 10), end])} />}
          {shown.map((key) => (
            <Node key={key} name={key} path={[...path, key]} editing={editing} value={childOf(key)} openLevels={openLevels - 1} reveal={stepInto(reveal, key)} />
          ))}
          {count > end && <More text={`${count - end} more`} onClick={() => setShown([first, end + portion * 10])} />}
        </ul>
      )}
      {isOpen && <span class="soft json-end">{close}</span>}
    </li>
  );
}

function stepInto(reveal: Reveal | undefined, name: string): Reveal | undefined {
  if (reveal === undefined || String(reveal.path[0]) !== name) return undefined;
  return { path: reveal.path.slice(1), serial: reveal.serial };
}

function showLine(line: HTMLElement | null): void {
  line?.scrollIntoView({ block: "center" });
  line?.focus();
}

function More({ text, onClick }: { text: string; onClick: () => void }) {
  return <li><button type="button" class="json-more" onClick={onClick}>{text}</button></li>;
}

function Name({ name }: { name: string }) {
  return <><span class="json-name">{name}</span><span class="soft">: </span></>;
}

function Leaf({ value }: { value: unknown }) {
  const [length, setLength] = useState(longestText);
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  const kind = value === null ? "null" : value instanceof Numeral || value instanceof Scalar ? "number" : typeof value;
  const type = value instanceof Scalar && value.type !== "Int32" ? <span class="json-type">{value.type}</span> : null;
  if (text.length <= length) return <><span class={`json-${kind}`}>{text}</span>{type}</>;
  return (
    <span class={`json-${kind}`}>
      {text.slice(0, length)}
      <button type="button" class="json-more" onClick={() => setLength(length * 10)}>… {text.length - length} more characters</button>
      {type}
    </span>
  );
}
