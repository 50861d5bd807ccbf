/** What is open next to a list, after `#`: one of its items by id, or a new one. */

import type { DocumentId } from "../../api/ids.js";
import { parseTyped, writeTyped } from "../../api/typed.js";
import { address } from "../../shell/router.js";

export type Open = { readonly kind: "none" } | { readonly kind: "new" } | { readonly kind: "one"; readonly id: DocumentId };

export const nothingOpen: Open = { kind: "none" };

export function readOpen(hash: string): Open {
  const told = new URLSearchParams(hash);
  if (told.has("new")) return { kind: "new" };
  const text = told.get("id");
  try {
    return text === null ? nothingOpen : { kind: "one", id: parseTyped(text) };
  } catch {
    return nothingOpen; // typed by hand
  }
}

/** `find`: the text by which the list is searched. */
export function addressOf(section: string, open: Open = nothingOpen, find = ""): string {
  const told = new URLSearchParams(find === "" ? {} : { find });
  if (open.kind === "new") told.set("new", "");
  if (open.kind === "one") told.set("id", writeTyped(open.id, 0));
  const hash = told.toString();
  return address("access", section) + (hash === "" ? "" : `#${hash}`);
}
