/** Unsaved work that outlives the page. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dropKept, hearKept, writeKept } from "./kept.js";

const delay = 250; // ms after the last change

/**
 * Store a value under a key, or remove it if null; false: the browser has no room for it.
 *
 * Calls `onOther` with what another window stores under the key, so that both windows have the same.
 */
export function useKeeping(key: string, value: unknown, onOther: (value: unknown) => void): boolean {
  const [isKept, setKept] = useState(true);
  const due = useRef<(() => void) | null>(null);
  const text = value === null ? null : JSON.stringify(value);
  const other = useRef(onOther);
  other.current = onOther;
  const heard = useRef<string | null | undefined>(undefined);
  const before = useRef<string | null>(null);
  useEffect(() => hearKept((changed, now) => {
    if (changed !== key) return;
    heard.current = now === null ? null : JSON.stringify(now);
    other.current(now);
  }), [key]);
  useLayoutEffect(() => { // immediately: the page can be closed at any moment
    const keep = () => {
      due.current = null;
      if (text === heard.current) return; // the other window keeps it, and may be writing the next
      heard.current = undefined;
      if (text === null) dropKept(key);
      else setKept(writeKept(key, value));
    };
    const isOver = text === null && before.current !== null;
    before.current = text;
    due.current = keep;
    if (isOver) return keep(); // what was saved is not unsaved work for a moment longer
    const timer = setTimeout(keep, delay);
    return () => clearTimeout(timer);
  }, [key, text]);
  useEffect(() => {
    const flush = () => due.current?.();
    addEventListener("pagehide", flush);
    return () => {
      removeEventListener("pagehide", flush);
      flush();
    };
  }, [key]);
  return isKept;
}
