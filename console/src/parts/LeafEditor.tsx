/** Edit a value in the tree: Enter applies the change, Escape cancels it. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

type Path = readonly (string | number)[];

export interface Editing {
  /** The text to edit; null: this value cannot be edited. */
  begin(path: Path, value: unknown): string | null;
  /** Apply the text; return what is wrong with it, or null. */
  change(path: Path, value: unknown, text: string): string | null;
  /** Whether the editor at a path is open with a text that cannot be applied. */
  hold(path: Path, isHeld: boolean): void;
}

interface LeafEditorProps {
  path: Path;
  value: unknown;
  editing: Editing | undefined;
  children: ComponentChildren;
}

const mostToEdit = 10_000; // characters; the JSON of the document has room for more

export function LeafEditor({ path, value, editing, children }: LeafEditorProps) {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const hadFocus = useRef(false);
  useLayoutEffect(() => {
    if (!isOpen && hadFocus.current) opener.current?.focus();
    hadFocus.current = false;
  }, [isOpen]);
  const text = editing?.begin(path, value) ?? null;
  if (editing === undefined || text === null || text.length > mostToEdit) return <>{children}</>;
  const close = (isByKey: boolean) => {
    hadFocus.current = isByKey;
    setOpen(false);
  };
  if (isOpen) return <OpenEditor label={`Value of ${path.join(".")}`} text={text} onChange={(typed) => editing.change(path, value, typed)} onHold={(isHeld) => editing.hold(path, isHeld)} onClose={close} />;
  return <>{children}<button ref={opener} type="button" class="json-edit" aria-label={`Edit ${path.join(".")}`} onClick={() => setOpen(true)}>✎</button></>;
}

interface OpenEditorProps {
  label: string;
  text: string;
  onChange: (text: string) => string | null;
  onHold: (isHeld: boolean) => void;
  onClose: (isByKey: boolean) => void;
}

function OpenEditor({ label, text, onChange, onHold, onClose }: OpenEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const isDone = useRef(false); // removing the textarea causes another blur event
  const [typed, setTyped] = useState(text);
  const [wrong, setWrong] = useState<string | null>(null);
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.select();
    return () => onHold(false);
  }, []);
  const sayWrong = (said: string | null) => {
    setWrong(said);
    onHold(said !== null); // immediately: the same click can be one on Save
  };
  const close = (isByKey: boolean) => {
    isDone.current = true;
    onClose(isByKey);
  };
  const finish = (isByKey: boolean) => {
    if (isDone.current) return;
    const said = typed === text ? null : onChange(typed);
    sayWrong(said);
    if (said === null) close(isByKey);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") close(true);
    else if (event.key === "Enter" && !event.shiftKey) finish(true);
    else return;
    event.preventDefault();
  };
  const input = (next: string) => {
    setTyped(next);
    sayWrong(null); // checked again when it is applied
  };
  return (
    <span class="json-editor">
      <textarea ref={area} class="input" aria-label={label} aria-invalid={wrong !== null} rows={Math.min(8, typed.split("\n").length)} value={typed} spellcheck={false} onInput={(event) => input(event.currentTarget.value)} onKeyDown={press} onBlur={() => finish(false)} />
      {wrong !== null && <span class="json-wrong" role="alert">{wrong}</span>}
    </span>
  );
}
