/** A rule as a form: texts, each as typed. */

import { type Fields, type Value, isFields, writeTyped } from "../../api/typed.js";
import { isRecord } from "../../api/error.js";
import { writeMembers } from "../../api/members.js";
import { Scalar } from "../../parts/json.js";

export interface RuleForm {
  /** Of a new rule; empty: the server makes one. */
  readonly id: string;
  readonly description: string;
  readonly predicate: string;
  readonly roles: readonly string[];
  readonly priority: string;
  readonly flags: readonly string[];
  /** The conditions that are objects, by name. */
  readonly filters: Readonly<Record<string, string>>;
  /** The properties without a field in the form, by name, as JSON: they stay. */
  readonly others: readonly (readonly [string, string])[];
}

export const flagNames: Readonly<Record<string, string>> = {
  allowManagementRequests: "databases, collections, indexes and schemas may be made, changed and dropped",
  allowBulkPatch: "many documents may be changed in one request",
  allowBulkDelete: "many documents may be deleted in one request",
  allowWriteMode: "writes may choose whether they insert, update or upsert",
};

export const filterNames: Readonly<Record<string, string>> = {
  readFilter: 'Only these rows of the collection are read by REST: {"owner": "@user._id"}',
  readFilters: 'The same by collection, for REST and GraphQL: {"shop.orders": {"owner": "@user._id"}}',
  writeFilter: "Only these documents are changed or deleted",
  mergeRequest: 'Put into every document that is written: {"owner": "@user._id"}',
  projectResponse: 'Removes properties, {"secret": 0}, or returns only these, {"name": 1}',
};

const own = ["_id", "_etag", "description", "predicate", "roles", "role", "priority", "mongo"];
const numeral = /^-?\d+(\.\d+)?$/;

export const newRule: RuleForm = { id: "", description: "", predicate: "", roles: [], priority: "", flags: [], filters: {}, others: [] };

export function formOf(fields: Fields): RuleForm {
  const mongo = fields.get("mongo");
  const conditions = isFields(mongo) ? mongo : new Map<string, Value>();
  const role = fields.get("role");
  return {
    id: "",
    description: asText(fields.get("description")),
    predicate: asText(fields.get("predicate")),
    roles: typeof role === "string" ? [role] : asList(fields.get("roles")),
    priority: asText(fields.get("priority")),
    flags: Object.keys(flagNames).filter((name) => conditions.get(name) === true),
    filters: Object.fromEntries(Object.keys(filterNames).filter((name) => (conditions.get(name) ?? null) !== null).map((name) => [name, filterText(conditions.get(name)!)])),
    others: [...fields].filter(([name]) => !own.includes(name)).map(([name, value]) => [name, writeTyped(value, 0)]),
  };
}

/** The rule as JSON; filters stay texts, so that findings have places in them. */
export function writeForm({ id, description, predicate, roles, priority, flags, filters, others }: RuleForm): string {
  const members: [string, string][] = id.trim() === "" ? [] : [["_id", JSON.stringify(id.trim())]];
  if (description.trim() !== "") members.push(["description", JSON.stringify(description.trim())]);
  members.push(["predicate", JSON.stringify(predicate)], ["roles", JSON.stringify(roles)]);
  if (priority.trim() !== "") members.push(["priority", numeral.test(priority.trim()) ? priority.trim() : JSON.stringify(priority)]);
  const conditions = { ...Object.fromEntries(flags.map((name) => [name, true])), ...filters };
  if (Object.keys(conditions).length > 0) members.push(["mongo", JSON.stringify(conditions)]);
  return writeMembers([...members, ...others]);
}

/** What the browser has stored, if it is a valid form. */
export function asForm(value: unknown): RuleForm | null {
  if (!isRecord(value)) return null;
  const isText = ["id", "description", "predicate", "priority"].every((name) => typeof value[name] === "string");
  const isListed = ["roles", "flags", "others"].every((name) => Array.isArray(value[name]));
  return isText && isListed && isRecord(value["filters"]) ? (value as unknown as RuleForm) : null;
}

function filterText(value: Value): string {
  return typeof value === "string" ? value : writeTyped(value);
}

function asText(value: Value | undefined): string {
  return typeof value === "string" ? value : value instanceof Scalar ? value.text : "";
}

function asList(value: Value | undefined): readonly string[] {
  return Array.isArray(value) ? (value as readonly Value[]).filter((one) => typeof one === "string") : [];
}
