/** The caller as whom an administrator views apps: that caller's fields and rows, with the administrator's own login. Reloading the page ends it. */

import { sessionState } from "./session.js";
import { Store, useStore } from "./store.js";
import type { As } from "./tools.js";

interface Looking {
  readonly as: As;
  /** The administrator: another login views apps as itself. */
  readonly owner: string;
}

const looking = new Store<Looking | null>(null);

export function lookAs(as: As): void {
  const { login } = sessionState.value;
  looking.set(login === null ? null : { as, owner: login.name });
}

export function stopLooking(): void {
  looking.set(null);
}

/** null: as oneself. A login that has ended changes nothing until the user logs in or continues without a login. */
export function useLooking(): As | null {
  const now = useStore(looking);
  const { login, hasExpired } = useStore(sessionState);
  return now !== null && (hasExpired || login?.name === now.owner) ? now.as : null;
}

/** Describes that caller in words. */
export function describeAs({ roles = [], user }: As): string {
  if (user !== undefined) return `the user ${user}`;
  if (roles.length === 0) return "a caller who is not logged in";
  return `a caller with ${roles.length === 1 ? "the role" : "the roles"} ${roles.join(", ")}`;
}
