/** Where users and rules are stored, all rules, and the findings about a rule: `/_tools/realm`, `/_tools/rules` and `/_tools/matrix`. */

import type { Segments } from "./data.js";
import { readMembers, writeMembers } from "./members.js";
import { requireRight } from "./rights.js";
import { request, requestJson } from "./session.js";
import { pathOf, settings } from "./settings.js";
import type { As, Finding } from "./tools.js";

export interface UsersPlace {
  /** Where the REST API serves the users; null: it does not. */
  readonly path: string | null;
  readonly propId: string;
  readonly propPassword: string;
  readonly jsonPathRoles: string;
  /** The property with the list of roles; null: there is no single property. */
  readonly propRoles: string | null;
  readonly minimumPasswordStrength: number | null;
}

export interface Realm {
  readonly rootRole: string | null;
  /** null: users are not stored in the database. */
  readonly users: UsersPlace | null;
  /** null: rules are not stored in the database. */
  readonly rules: { readonly path: string | null } | null;
}

export interface ListedRule {
  readonly rule: string;
  /** As JSON that keeps its type; "null" where it has none. */
  readonly id: string;
  readonly source: "database" | "file";
  readonly roles: readonly string[];
  readonly predicate: string;
  readonly priority: number | null;
  readonly description: string;
  /** As JSON; null where there are no conditions. */
  readonly mongo: string | null;
  readonly errors: readonly Finding[];
  readonly warnings: readonly Finding[];
}

export interface CheckedRule {
  readonly errors: readonly Finding[];
  /** What to store, as JSON; null where it cannot work. */
  readonly rule: string | null;
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** JSON. */
  readonly body: string;
}

export interface Failure {
  readonly condition: string;
  /** null: unknown, since a value is missing. */
  readonly truth: boolean | null;
}

export interface Consideration {
  readonly rule: string;
  readonly priority: number | null;
  readonly roles: readonly string[];
  readonly predicate: string;
  readonly outcome: string;
  readonly failed: readonly Failure[];
}

export interface Said {
  readonly authorizer: string;
  readonly allowed: boolean;
  readonly reason: string;
}

export interface Verdict {
  readonly user: string | null;
  readonly roles: readonly string[];
  readonly method: string;
  readonly path: string;
  readonly service: string;
  readonly allowed: boolean;
  readonly status: number;
  readonly reason: string;
  readonly vetoers: readonly Said[];
  readonly allowers: readonly Said[];
  readonly rules: readonly Consideration[];
  readonly others: readonly Consideration[];
  readonly conditions: Readonly<Record<string, unknown>>;
  readonly notes: readonly string[];
}

const headers = { "Content-Type": "application/json" };

export async function readRealm(signal: AbortSignal): Promise<Realm> {
  await requireRight("GET", pathOf("tools", "realm"));
  return requestJson<Realm>(pathOf("tools", "realm"), { signal });
}

/** The segments, below the REST API, of a path that the server returned. */
export function segmentsOf(path: string): Segments {
  const root = settings.paths["mongo"] === "/" ? "" : (settings.paths["mongo"] ?? "");
  return path.slice(root.length).split("/").filter(Boolean).map(decodeURIComponent);
}

/** All rules, in the order of evaluation. */
export async function listRules(signal: AbortSignal): Promise<readonly ListedRule[]> {
  await requireRight("GET", pathOf("tools", "rules"));
  const response = await request(pathOf("tools", "rules"), { signal });
  const text = await response.text();
  const { rules } = JSON.parse(text) as { rules: (Omit<ListedRule, "id" | "mongo" | "description"> & { id: unknown; mongo?: unknown; description?: unknown })[] };
  return rules.map((rule) => ({
    ...rule,
    id: JSON.stringify(rule.id),
    mongo: rule.mongo === undefined ? null : JSON.stringify(rule.mongo),
    description: typeof rule.description === "string" ? rule.description : "",
  }));
}

/** The findings about a rule, which is JSON; nothing is stored. */
export async function checkRule(rule: string, signal?: AbortSignal): Promise<CheckedRule> {
  const response = await request(pathOf("tools", "rules"), { method: "POST", headers, body: writeMembers([["rule", rule]]), ...(signal ? { signal } : {}) });
  const answer = await response.text();
  const { errors } = JSON.parse(answer) as { errors: readonly Finding[] };
  return { errors, rule: readMembers(answer).get("rule") ?? null };
}

/** Whether a request would be allowed, and why. */
export function explainRequest(asked: Asked, as: As, signal: AbortSignal): Promise<Verdict> {
  return requestJson<Verdict>(pathOf("tools", "matrix"), { method: "POST", json: { request: asked, ...as }, signal });
}
