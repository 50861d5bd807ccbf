/** As whom an administrator looks at apps: others' fields and rows, with his own login. Reloading the page ends it. */

import { sessionState } from "./session.js";
import { Store, useStore } from "./store.js";
import type { As } from "./tools.js";

interface Looking {
  readonly as: As;
  /** Who looks: another login looks as itself. */
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

/** null: as oneself. A login that has ended changes nothing until it is known how one goes on. */
export function useLooking(): As | null {
  const now = useStore(looking);
  const { login, hasExpired } = useStore(sessionState);
  return now !== null && (hasExpired || login?.name === now.owner) ? now.as : null;
}

/** Whom one looks as, in words. */
export function describeAs({ roles = [], user }: As): string {
  if (user !== undefined) return `the user ${user}`;
  if (roles.length === 0) return "somebody who is not logged in";
  return `somebody with ${roles.length === 1 ? "the role" : "the roles"} ${roles.join(", ")}`;
}
