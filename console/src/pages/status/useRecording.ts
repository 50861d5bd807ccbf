/** Reads the metrics every few seconds while the page is visible. */

import { useEffect, useState } from "preact/hooks";
import { asApiError } from "../../api/error.js";
import { type Health, type History, hasHealth, hasMetrics, readHealth, readHistory, readMetrics } from "../../api/metrics.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { type Recording, emptyRecording, record, recordHistory } from "./record.js";
import { takeSnapshot } from "./snapshot.js";

export interface Looking {
  readonly recording: Recording;
  /** Which server it is; null until it has answered. */
  readonly server: Pick<History, "instance" | "host" | "hasOperations"> | null;
  /** Of the last reading; undefined: none yet, null: not available. */
  readonly health: Health | null | undefined;
  /** Why there are no metrics now; null: there are. */
  readonly error: unknown;
}

const every = 3000; // ms
const first = 1000; // two readings are needed before there is anything to show

export function useRecording(): Looking {
  const [looking, setLooking] = useState<Looking>({ recording: emptyRecording, server: null, health: undefined, error: null });
  const isVisible = useVisibility();
  useCallerEffect((signal) => {
    if (!isVisible) return;
    let pause = first;
    let refused: unknown = null; // a rejected request is not sent again
    const begin = async () => {
      // What happened while the page was hidden is known, too.
      const [history] = await Promise.allSettled([hasMetrics ? readHistory(signal) : null]);
      if (signal.aborted) return;
      const found = history.status === "fulfilled" ? history.value : null;
      if (found !== null) setLooking((before) => ({ ...before, recording: recordHistory(found), server: found }));
      if (history.status === "rejected" && isRefusal(history.reason)) refused = history.reason;
      await look();
    };
    const look = async () => {
      const asksMetrics = hasMetrics && refused === null;
      // One after the other: then exactly one of the requests in flight is this page's.
      const [health] = await Promise.allSettled([hasHealth ? readHealth(signal) : null]);
      const [samples] = await Promise.allSettled([asksMetrics ? readMetrics(signal) : null]);
      if (signal.aborted) return;
      const known = health.status === "fulfilled" ? health.value : null;
      const error: unknown = samples.status === "rejected" ? samples.reason : refused;
      if (error !== null && isRefusal(error)) refused = error;
      const found = samples.status === "fulfilled" ? samples.value : null;
      const at = Date.now();
      setLooking(({ recording, server }) => ({ server, recording: found === null ? recording : record(recording, takeSnapshot(at, found, known)), health: known, error }));
      setTimeout(() => signal.aborted || void look(), pause);
      pause = every;
    };
    void begin();
  }, [isVisible]);
  return looking;
}

function isRefusal(error: unknown): boolean {
  return [401, 403].includes(asApiError(error).status);
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
