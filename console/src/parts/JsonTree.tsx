/** JSON as a tree that opens level by level; large lists are shown in portions. */

import { useState } from "preact/hooks";

const portion = 100;
const longestText = 2000; // characters of a value that are shown at once

interface NodeProps {
  name: string | null;
  value: unknown;
  openLevels: number;
}

export function JsonTree({ value, label, openLevels = 2 }: { value: unknown; label: string; openLevels?: number }) {
  return (
    <ul class="json" aria-label={label}>
      <Node name={null} value={value} openLevels={openLevels} />
    </ul>
  );
}

function Node({ name, value, openLevels }: NodeProps) {
  const [isOpen, setOpen] = useState(openLevels > 0);
  const [shown, setShown] = useState(portion);
  if (typeof value !== "object" || value === null) {
    return <li class="json-leaf">{name !== null && <Name name={name} />}<Leaf value={value} /></li>;
  }
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return (
    <li>
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {name !== null && <Name name={name} />}
        <span class="soft">{isOpen ? open : `${open} ${entries.length} ${close}`}</span>
      </button>
      {isOpen && (
        <ul>
          {entries.slice(0, shown).map(([key, child]) => (
            <Node key={key} name={key} value={child} openLevels={openLevels - 1} />
          ))}
          {entries.length > shown && (
            <li>
              <button type="button" class="json-more" onClick={() => setShown(shown + portion * 10)}>
                {entries.length - shown} more
              </button>
            </li>
          )}
        </ul>
      )}
      {isOpen && <span class="soft json-end">{close}</span>}
    </li>
  );
}

function Name({ name }: { name: string }) {
  return <><span class="json-name">{name}</span><span class="soft">: </span></>;
}

function Leaf({ value }: { value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  const kind = value === null ? "null" : typeof value;
  if (isWhole || text.length <= longestText) return <span class={`json-${kind}`}>{text}</span>;
  return (
    <span class={`json-${kind}`}>
      {text.slice(0, longestText)}
      <button type="button" class="json-more" onClick={() => setWhole(true)}>… {text.length - longestText} more characters</button>
    </span>
  );
}
