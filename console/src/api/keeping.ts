/** Unsaved work that outlives the page. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dropKept, writeKept } from "./kept.js";

const delay = 250; // ms after the last change

/** Keep a value under a key, or nothing where it is null; false where the browser has no room for it. */
export function useKeeping(key: string, value: unknown): boolean {
  const [isKept, setKept] = useState(true);
  const due = useRef<(() => void) | null>(null);
  const text = value === null ? null : JSON.stringify(value);
  useLayoutEffect(() => { // at once: the page can go at any moment
    const keep = () => {
      due.current = null;
      if (text === null) dropKept(key);
      else setKept(writeKept(key, value));
    };
    due.current = keep;
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
