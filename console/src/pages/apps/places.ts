/** The address of the work on an app: `apps/blog`, or `apps/id/5` for the app whose id is the number 5. */

import { type AppId, idOf } from "../../api/apps.js";
import { address } from "../../shell/router.js";

export type TabKey = "definition" | "try" | "changes" | "history" | "access" | "advice";

const byId = "id";
const tabs: readonly string[] = ["definition", "try", "changes", "history", "access", "advice"] satisfies readonly TabKey[];

export function addressOf(id: AppId, tab: TabKey = "definition"): string {
  const value: unknown = JSON.parse(id);
  const path = typeof value === "string" ? address("apps", value) : address("apps", byId, id);
  return tab === "definition" ? path : `${path}#${tab}`;
}

/** The tab that the text after `#` names. */
export function readTab(hash: string): TabKey {
  return tabs.includes(hash) ? (hash as TabKey) : "definition";
}

/** The app that an address is about; null: all of them. */
export function readPlace([first, second]: readonly string[]): AppId | null {
  if (first === undefined) return null;
  return first === byId && second !== undefined && isJson(second) ? second : idOf(first);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
