/** Reads the metrics every few seconds while the page is visible. */

import { useEffect, useState } from "preact/hooks";
import { asApiError } from "../../api/error.js";
import { type Health, hasHealth, hasMetrics, readHealth, readMetrics } from "../../api/metrics.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { type Recording, emptyRecording, record } from "./record.js";
import { takeSnapshot } from "./snapshot.js";

export interface Looking {
  readonly recording: Recording;
  /** Of the last reading; undefined: none yet, null: not available. */
  readonly health: Health | null | undefined;
  /** Why there are no metrics now; null: there are. */
  readonly error: unknown;
}

const every = 3000; // ms
const first = 1000; // two readings are needed before there is anything to show

export function useRecording(): Looking {
  const [looking, setLooking] = useState<Looking>({ recording: emptyRecording, health: undefined, error: null });
  const isVisible = useVisibility();
  useCallerEffect((signal) => {
    if (!isVisible) return;
    let pause = first;
    let refused: unknown = null; // a rejected request is not sent again
    const look = async () => {
      const asksMetrics = hasMetrics && refused === null;
      // One after the other: then exactly one of the requests in flight is this page's.
      const [health] = await Promise.allSettled([hasHealth ? readHealth(signal) : null]);
      const [samples] = await Promise.allSettled([asksMetrics ? readMetrics(signal) : null]);
      if (signal.aborted) return;
      const known = health.status === "fulfilled" ? health.value : null;
      const error: unknown = samples.status === "rejected" ? samples.reason : refused;
      if (error !== null && [401, 403].includes(asApiError(error).status)) refused = error;
      const found = samples.status === "fulfilled" ? samples.value : null;
      const at = Date.now();
      setLooking(({ recording }) => ({ recording: found === null ? recording : record(recording, takeSnapshot(at, found, known)), health: known, error }));
      setTimeout(() => signal.aborted || void look(), pause);
      pause = every;
    };
    void look();
  }, [isVisible]);
  return looking;
}

function useVisibility(): boolean {
  const [isVisible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return isVisible;
}
