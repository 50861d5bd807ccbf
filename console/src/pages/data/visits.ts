/** Collections, or other things, that a user has opened by their path, since no list shows them. */

import { dropKept, keptKey, listKept, writeKept } from "../../api/kept.js";
import type { Segments } from "../../api/data.js";

const collections = "visit";
const most = 20;

export function pathText(segments: Segments): string {
  return segments.map(encodeURIComponent).join("/");
}

export function keepVisit(owner: string | null, segments: Segments, kind = collections): void {
  const known = listKept(owner, kind);
  const path = pathText(segments);
  if (!known.includes(path) && known.length < most) writeKept(keptKey(owner, kind, path), 1);
}

export function listVisits(owner: string | null, kind = collections): readonly string[] {
  return [...listKept(owner, kind)].sort();
}

export function dropVisit(owner: string | null, path: string, kind = collections): void {
  dropKept(keptKey(owner, kind, path));
}
