/** Checks a definition while it is typed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Checked, checkDefinition } from "../../api/tools.js";

export interface Check {
  /** The last answer, and the definition that it is about. */
  readonly checked: Checked | null;
  readonly about: string;
  readonly isRunning: boolean;
  readonly error: unknown;
  retry(): void;
}

const pause = 350; // ms without a key; large definitions wait as long as they took the last time
const longestPause = 3000;

/** How long to wait before a check, in ms; `took` is what the last one took, null before the first. */
export function pauseBefore(took: number | null): number {
  return took === null ? 0 : Math.min(longestPause, Math.max(pause, took));
}

/** `since` changes when something else has changed, such as the stored definition. */
export function useCheck(definition: string | null, since: unknown): Check {
  const [check, setCheck] = useState<Omit<Check, "retry">>({ checked: null, about: "", isRunning: false, error: null });
  const [attempt, setAttempt] = useState(0);
  const took = useRef<number | null>(null);
  useEffect(() => {
    if (definition === null) return undefined;
    const controller = new AbortController();
    setCheck((before) => ({ ...before, isRunning: true }));
    const run = async () => {
      const started = performance.now();
      try {
        const checked = await checkDefinition(definition, controller.signal);
        took.current = performance.now() - started;
        setCheck({ checked, about: definition, isRunning: false, error: null });
      } catch (error) {
        if (!controller.signal.aborted) setCheck((before) => ({ ...before, isRunning: false, error }));
      }
    };
    const timer = setTimeout(() => void run(), pauseBefore(took.current));
    took.current ??= 0; // the first one may never end: a key makes it superfluous
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [definition, since, attempt]);
  return { ...check, retry: () => setAttempt(attempt + 1) };
}
