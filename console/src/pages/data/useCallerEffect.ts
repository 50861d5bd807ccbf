/** Reads something for the caller: again for another caller, and not while an expired login waits for the user's choice. */

import { useEffect } from "preact/hooks";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";

export function useCallerEffect(read: (signal: AbortSignal) => void, inputs: readonly unknown[]): void {
  const { login, hasExpired } = useStore(sessionState);
  useEffect(() => {
    if (hasExpired) return undefined;
    const controller = new AbortController();
    read(controller.signal);
    return () => controller.abort();
  }, [...inputs, login?.name, hasExpired]);
}
