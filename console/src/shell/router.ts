/** The current address: the path below the console's own, such as `ask/shop`, and the text after `#`. */

import { settings } from "../api/settings.js";
import { Store, useStore } from "../api/store.js";

export interface Place {
  /** The name of the page, the first segment; empty at the start. */
  readonly page: string;
  /** The segments below it, decoded. */
  readonly rest: readonly string[];
  /** The text after `#`; it is never sent to the server. */
  readonly hash: string;
}

export const place = new Store<Place>(read());

/** The address of a page of the console. */
export function address(page: string, ...rest: readonly string[]): string {
  const root = settings.base === "/" ? "" : settings.base;
  return [root, page, ...rest.map(encodeURIComponent)].join("/");
}

/**
 * Go to an address of the console; `replace` leaves no trace in the history of the browser.
 *
 * `state` is what a reload and Back find again in `history.state`, and a link does not carry.
 */
export function go(to: string, { replace = false, state = null }: { replace?: boolean; state?: unknown } = {}): void {
  history[replace ? "replaceState" : "pushState"](state, "", to);
  place.set(read());
}

/** One text of the page that the address carries after `#`, such as a filter; empty: it is not in it. */
export function useNoted(name: string): readonly [string, (value: string) => void] {
  const { hash } = useStore(place);
  const note = (value: string) => go(withNoted(location.pathname, location.hash.slice(1), name, value), { replace: true, state: history.state });
  return [new URLSearchParams(hash).get(name) ?? "", note];
}

/** An address with this text in its fragment, next to what is there. */
export function withNoted(path: string, hash: string, name: string, value: string): string {
  const told = new URLSearchParams(hash);
  if (value === "") told.delete(name);
  else told.set(name, value);
  const noted = told.toString();
  return noted === "" ? path : `${path}#${noted}`;
}

/** Links within the console do not load the page again; with a key held down they do what they always do. */
export function followLink(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest?.("a");
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
  const inside = settings.base === "/" ? "/" : `${settings.base}/`;
  if (link.origin !== location.origin || !`${link.pathname}/`.startsWith(inside)) return;
  event.preventDefault();
  go(link.href, { state: link.pathname === location.pathname ? history.state : null });
}

addEventListener("popstate", () => place.set(read()));
addEventListener("hashchange", () => place.set(read()));

function read(): Place {
  const below = location.pathname.slice(settings.base === "/" ? 0 : settings.base.length);
  const [page = "", ...rest] = below.split("/").filter(Boolean).map(decode);
  return { page, rest, hash: location.hash.slice(1) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // a typed percent sign that encodes nothing
  }
}
