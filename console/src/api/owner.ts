/** Whose work a page holds. */

import { useState } from "preact/hooks";
import { sessionState } from "./session.js";
import { useStore } from "./store.js";

/** When a login ends, the page belongs to its user until they log in again or continue without a login. */
export function useOwner(): string | null {
  const { login, hasExpired } = useStore(sessionState);
  const [owner, setOwner] = useState(login?.name ?? null);
  const next = hasExpired ? owner : (login?.name ?? null);
  if (next !== owner) setOwner(next);
  return next;
}
