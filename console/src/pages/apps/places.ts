/** The address of the work on an app: `apps/blog`, or `apps/id/5` for the app whose id is the number 5. */

import { type AppId, idOf } from "../../api/apps.js";
import { address } from "../../shell/router.js";

const byId = "id";

export function addressOf(id: AppId): string {
  const value: unknown = JSON.parse(id);
  return typeof value === "string" ? address("apps", value) : address("apps", byId, id);
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
