/** `POST /_tools/advise`: what could be better about an app and its data, and the indexes that help. */

import { request } from "./session.js";
import { pathOfTool } from "./settings.js";

export interface Advice {
  readonly severity: "error" | "warning" | "note";
  readonly kind: string;
  readonly where: string | null;
  readonly collection: string | null;
  readonly what: string;
  readonly hint: string | null;
}

export interface AdvisedIndex {
  readonly db: string;
  readonly collection: string;
  readonly keys: Readonly<Record<string, number | string>>;
  readonly createIndex: string;
  readonly serves: readonly string[];
  /** Where the REST API serves the collection; null: it does not. */
  readonly path: string | null;
}

export interface AdviceReport {
  readonly findings: readonly Advice[];
  readonly indexes: readonly AdvisedIndex[];
}

export const advicePath = pathOfTool("advise");

/** The advice on a definition, which is JSON. */
export async function readAdvice(definition: string, signal: AbortSignal): Promise<AdviceReport> {
  const headers = { "Content-Type": "application/json" };
  const response = await request(advicePath, { method: "POST", headers, body: `{"definition":${definition}}`, signal });
  return (await response.json()) as AdviceReport;
}

/** A name for an index, as the database would make it. */
export function nameIndex(keys: AdvisedIndex["keys"]): string {
  return Object.entries(keys).map(([name, direction]) => `${name}_${direction}`).join("_");
}

/** The field of a location, such as `Post.title` of `schema: Post.title` or `mappings.Post.title.find`. */
export function fieldOf(where: string | null): string | null {
  const found = /^(?:schema: |mappings\.)(\w+)\.(\w+)/.exec(where ?? "");
  return found === null ? null : `${found[1]}.${found[2]}`;
}
