/** `POST /_tools/plan`: what a query costs, and why. */

import { type As, type GraphqlError, type Question, isObject, readErrors, writeQuestion } from "./graphql.js";
import { requestJson } from "./session.js";
import { pathOf } from "./settings.js";

export interface Command {
  readonly field: string;
  readonly kind: string;
  readonly collection: string;
  readonly parents: number;
  readonly documents: number;
  readonly startedMs: number;
  readonly ms: number;
}

export interface Fetch {
  readonly field: string;
  readonly way: string;
  readonly limit: number | null;
  readonly access: "index" | "scan" | "unknown";
  readonly advice?: string;
  readonly collection?: string;
  readonly documents?: number | null;
  readonly examined?: number | null;
  readonly indexes?: readonly string[];
  readonly sortsInMemory?: boolean;
  readonly createIndex?: string;
}

export interface Limits {
  readonly estimatedDocuments: number;
  readonly fetchedDocuments: number;
  readonly responseBytes: number;
}

export interface Plan {
  readonly estimatedDocuments: { readonly byLimits: number; readonly byCounts?: number };
  readonly wouldBeRefused: boolean;
  readonly because?: string;
  readonly fetches: readonly Fetch[];
  readonly warnings?: readonly string[];
  readonly limits?: Limits;
  readonly plan?: string;
  readonly commands?: readonly Command[];
  readonly documents?: number;
  readonly dependsOn?: readonly string[];
  readonly notTrackable?: string;
  readonly errors: readonly GraphqlError[];
}

export interface Totals {
  /** While at least one command ran. */
  readonly busyMs: number;
  /** Of all commands together: more than `busyMs` where some ran at the same time. */
  readonly tookMs: number;
  readonly documents: number;
}

export function sumCommands(commands: readonly Command[]): Totals {
  let [busyMs, tookMs, documents, end] = [0, 0, 0, 0];
  for (const one of [...commands].sort((a, b) => a.startedMs - b.startedMs)) {
    const until = one.startedMs + one.ms;
    busyMs += Math.max(0, until - Math.max(end, one.startedMs));
    end = Math.max(end, until);
    tookMs += one.ms;
    documents += one.documents;
  }
  return { busyMs, tookMs, documents };
}

/** The plan of a query; with `run` the query is executed to measure its cost. */
export async function explain(uri: string, question: Question, run: boolean, signal: AbortSignal, as: As | null = null): Promise<Plan> {
  const body = writeQuestion(question, { app: uri, run, ...as });
  const headers = { "Content-Type": "application/json" };
  const answer = await requestJson<Omit<Plan, "errors">>(pathOf("tools", "plan"), { method: "POST", headers, body, signal });
  return { ...answer, errors: isObject(answer) ? readErrors(answer) : [] };
}
