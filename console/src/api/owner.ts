/** Whose work a page holds. */

import { useState } from "preact/hooks";
import { sessionState } from "./session.js";
import { useStore } from "./store.js";

/** When a login ends, the page stays that of its user until it is known how he goes on. */
export function useOwner(): string | null {
  const { login, hasExpired } = useStore(sessionState);
  const [owner, setOwner] = useState(login?.name ?? null);
  const next = hasExpired ? owner : (login?.name ?? null);
  if (next !== owner) setOwner(next);
  return next;
}
