/** `POST /_tools/infer`: which collections can become an app, and the app that a sample of them gives. */

import { writeMembers } from "./members.js";
import { requestJson } from "./session.js";
import { pathOfTool } from "./settings.js";
import type { Mappings } from "./tools.js";

export interface ListedCollection {
  readonly name: string;
  readonly kind: "collection" | "view" | "timeseries";
  /** null: not known. */
  readonly documents: number | null;
}

export interface Sources {
  readonly db: string;
  readonly databases: readonly string[];
  readonly collections: readonly ListedCollection[];
  readonly notes: readonly string[];
}

export interface Relation {
  /** Names of collections. */
  readonly source: string;
  readonly target: string;
  readonly type: string;
  readonly field: string;
  /** The field of the type of the target. */
  readonly back: string | null;
  readonly evidence: string;
}

export interface Findings {
  readonly collections: readonly (ListedCollection & { readonly type: string; readonly sampled: number })[];
  readonly relations: readonly Relation[];
  readonly leftOut: readonly { readonly type: string; readonly name: string; readonly reason: string }[];
  readonly notes: readonly string[];
}

export interface NewApp extends Findings {
  readonly definition: { readonly schema: string; readonly mappings: Mappings; readonly descriptor: unknown };
}

export interface Additions extends Findings {
  readonly definition: { readonly schema: string; readonly mappings: string };
  readonly added: readonly string[];
}

const headers = { "Content-Type": "application/json" };

export const inferPath = pathOfTool("infer");

/** The collections that can be read; `db` null: those of the apps, or of the definition. */
export function listSources(db: string | null, definition: string | null, signal: AbortSignal): Promise<Sources> {
  return post([["run", "false"], ...(definition === null ? [] : [["definition", definition] as const])], db, null, signal);
}

export function inferApp(db: string, collections: readonly string[], signal: AbortSignal): Promise<NewApp> {
  return post([["texts", "false"]], db, collections, signal);
}

/** What is new for an existing definition, which is JSON. */
export function inferAdditions(definition: string, db: string, collections: readonly string[], signal: AbortSignal): Promise<Additions> {
  return post([["definition", definition]], db, collections, signal);
}

function post<Found>(members: readonly (readonly [string, string])[], db: string | null, collections: readonly string[] | null, signal: AbortSignal): Promise<Found> {
  const chosen: (readonly [string, string])[] = [["db", JSON.stringify(db)], ["collections", JSON.stringify(collections)]];
  return requestJson<Found>(inferPath, { method: "POST", headers, body: writeMembers([...members, ...chosen]), signal });
}
