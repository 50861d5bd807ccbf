/** `/_tools`: definitions checked and tried before they are stored. Definitions are handed over as JSON. */

import { type Answer, type As, askAt } from "./graphql.js";
export type { As } from "./graphql.js";
import { ApiError, readError } from "./error.js";
import { readMembers, writeMembers } from "./members.js";
import { requireRight } from "./rights.js";
import { request, requestJson } from "./session.js";
import { pathOf } from "./settings.js";

export interface Finding {
  readonly where: string;
  readonly what: string;
  readonly hint?: string | null;
  readonly line?: number;
  readonly column?: number;
  /** The field that it is about, such as `Post.extra`. */
  readonly field?: string;
  /** Where line and column are, if not in the part that `where` begins with. */
  readonly part?: "schema";
}

export interface Effect {
  readonly severity: string;
  readonly what: string;
}

export interface Texts {
  readonly mappings?: string;
  readonly descriptor?: string;
}

/** The mappings of fields by type and name. */
export type Mappings = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** What differs between two definitions. */
export interface Comparison {
  readonly change?: "new" | "changed" | "same";
  readonly breaking?: number;
  readonly effects?: readonly Effect[];
  readonly diff?: string;
}

export interface Checked extends Comparison {
  readonly valid: boolean;
  readonly errors: readonly Finding[];
  readonly warnings: readonly Finding[];
  /** What to store, as JSON. */
  readonly definition: string | null;
}

export interface Access {
  readonly role: string;
  readonly allowed: boolean;
  readonly reason?: string;
  readonly readFilters?: unknown;
}

export interface Matrix {
  readonly roles: readonly string[];
  readonly fields: readonly { readonly field: string; readonly seenBy: Readonly<Record<string, boolean>> }[];
  readonly access?: readonly Access[];
}

const headers = { "Content-Type": "application/json" };

/** Mappings and descriptor as YAML, where they are objects. */
export async function readTexts(definition: string): Promise<Texts> {
  await requireRight("POST", pathOf("tools", "check"));
  const body = writeMembers([["definition", definition], ["texts", "true"], ["run", "false"]]);
  return (await requestJson<{ texts: Texts }>(pathOf("tools", "check"), { method: "POST", headers, body })).texts;
}

/** The findings about a definition, and what storing it would change. */
export async function checkDefinition(definition: string, signal: AbortSignal): Promise<Checked> {
  await requireRight("POST", pathOf("tools", "check"));
  const body = writeMembers([["definition", definition]]);
  const response = await request(pathOf("tools", "check"), { method: "POST", headers, body, signal });
  const answer = await response.text();
  const { errors = [], warnings = [], ...rest } = JSON.parse(answer) as Partial<Checked>;
  return { valid: errors.length === 0, ...rest, errors, warnings, definition: readMembers(answer).get("definition") ?? null };
}

export interface Trial {
  readonly query: string;
  /** JSON, as it was typed. */
  readonly variables: string;
}

/** What the app would answer if the definition were stored; `ApiError`: the query was not executed. */
export async function tryDraft(definition: string, { query, variables }: Trial, as: As, signal: AbortSignal): Promise<Answer> {
  const members: [string, string][] = [["definition", definition], ["query", JSON.stringify(query)]];
  if (variables.trim()) members.push(["variables", requireObject(variables)]);
  for (const [name, value] of Object.entries(as)) members.push([name, JSON.stringify(value)]);
  const answer = await askAt(pathOf("tools", "draft"), writeMembers(members), signal);
  if (answer.status >= 400 && answer.errors.length === 0) throw await readError(new Response(answer.text, { status: answer.status }));
  return answer;
}

function requireObject(text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch (thrown) {
    throw new ApiError(0, "client-error", `The variables are not valid JSON: ${String(thrown)}`);
  }
}

/** Which roles see which fields of a definition. */
export function crossDraft(definition: string, roles: readonly string[] | null, signal: AbortSignal): Promise<Matrix> {
  const members: [string, string][] = [["definition", definition]];
  if (roles !== null) members.push(["roles", JSON.stringify(roles)]);
  return requestJson<Matrix>(pathOf("tools", "matrix"), { method: "POST", headers, body: writeMembers(members), signal });
}
