/**
 * The tabs of this browser that show the console: how they share a login.
 *
 * The token of a login is kept for the tab (`sessionStorage`), so that it survives a reload, and handed to another tab of the
 * console that asks for it. Both are for pages of this origin only, and end with the last tab. A password is never kept.
 */

import { settings } from "./settings.js";

export interface KeptToken {
  readonly name: string;
  /** The value of the header `Authorization`. */
  readonly authorization: string;
  /** When it ends, in ms; null where the server did not say. */
  readonly until: number | null;
}

export type Message =
  | { readonly kind: "ask" }
  | { readonly kind: "token"; readonly token: KeptToken }
  | { readonly kind: "cookie"; readonly name: string }
  | { readonly kind: "ended"; readonly name: string };

const key = `docgraph.console ${settings.base} token`;
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(`docgraph.console ${settings.base}`);

export function tell(message: Message): void {
  channel?.postMessage(message);
}

export function hear(listener: (message: Message) => void): void {
  channel?.addEventListener("message", (event: MessageEvent<Message>) => listener(event.data));
}

export function keepToken(token: KeptToken | null): void {
  try {
    if (token === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(token));
  } catch {
    // The browser stores nothing: the login ends with the page.
  }
}

/** The token of this tab, if it has not ended. */
export function readToken(): KeptToken | null {
  try {
    const token = JSON.parse(sessionStorage.getItem(key) ?? "null") as KeptToken | null;
    return token !== null && (token.until === null || token.until > Date.now()) ? token : null;
  } catch {
    return null; // not accessible, or not written by the console
  }
}
