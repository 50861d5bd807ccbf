/** The types of an inferred schema, and the schema after renaming or dropping some of them. */

import { type EnumTypeDefinitionNode, type FieldDefinitionNode, Kind, type NamedTypeNode, type ObjectTypeDefinitionNode, parse, print, visit } from "graphql";
import type { Mappings } from "../../../api/tools.js";
import { isRecord } from "../../../api/error.js";

export interface FoundField {
  readonly name: string;
  /** As the schema writes it. */
  readonly type: string;
  /** The name of its type, without lists and exclamation marks. */
  readonly named: string;
}

export interface FoundType {
  readonly name: string;
  readonly isEnum: boolean;
  /** Of an enum: its values. */
  readonly fields: readonly FoundField[];
}

/** Keys are names of types, or of fields with their types, such as `Order.total`. */
export interface Edits {
  readonly names: ReadonlyMap<string, string>;
  readonly dropped: ReadonlySet<string>;
}

export interface Parts {
  readonly schema: string;
  readonly mappings: Mappings;
}

type TypeNode = ObjectTypeDefinitionNode | EnumTypeDefinitionNode;
type Change = readonly [from: number, to: number, text: string];

export const noEdits: Edits = { names: new Map(), dropped: new Set() };

export function keyOf(type: string, field: string): string {
  return `${type}.${field}`;
}

export function readTypes(schema: string): readonly FoundType[] {
  return readNodes(schema).map((node) => ({
    name: node.name.value,
    isEnum: node.kind === Kind.ENUM_TYPE_DEFINITION,
    fields: node.kind === Kind.ENUM_TYPE_DEFINITION
      ? (node.values ?? []).map(({ name }) => ({ name: name.value, type: "", named: "" }))
      : (node.fields ?? []).map((field) => ({ name: field.name.value, type: print(field.type), named: namesIn(field)[0] ?? "" })),
  }));
}

function readNodes(schema: string): readonly TypeNode[] {
  return parse(schema).definitions.filter((node): node is TypeNode => node.kind === Kind.OBJECT_TYPE_DEFINITION || node.kind === Kind.ENUM_TYPE_DEFINITION);
}

/** The types that a field and its arguments name, its own first. */
function namesIn(field: FieldDefinitionNode): readonly string[] {
  const found: string[] = [];
  const collect = { NamedType: ({ name }: NamedTypeNode) => void found.push(name.value) };
  visit(field.type, collect);
  for (const argument of field.arguments ?? []) visit(argument, collect);
  return found;
}

/** Everything that is removed: what was dropped, fields of dropped types, and types that no field uses afterwards. */
export function findGone(schema: string, dropped: ReadonlySet<string>): ReadonlySet<string> {
  const objects = readNodes(schema).filter((node) => node.kind === Kind.OBJECT_TYPE_DEFINITION);
  const gone = new Set(dropped);
  for (let before = -1; before !== gone.size; ) {
    before = gone.size;
    for (const { name: { value: owner }, fields = [] } of objects) {
      for (const field of fields) if (namesIn(field).some((name) => gone.has(name))) gone.add(keyOf(owner, field.name.value));
      if (fields.every((field) => gone.has(keyOf(owner, field.name.value)))) gone.add(owner);
    }
  }
  const reached = new Set<string>();
  const reach = (name: string) => {
    if (reached.has(name) || gone.has(name)) return;
    reached.add(name);
    for (const field of objects.find((node) => node.name.value === name)?.fields ?? []) {
      if (!gone.has(keyOf(name, field.name.value))) namesIn(field).forEach(reach);
    }
  };
  reach("Query");
  for (const node of readNodes(schema)) if (!reached.has(node.name.value)) gone.add(node.name.value);
  return gone;
}

/** The mistakes in names, by key; the key `""` is for the whole definition. */
export function findMistakes(types: readonly FoundType[], gone: ReadonlySet<string>, { names }: Edits): ReadonlyMap<string, string> {
  const mistakes = new Map<string, string>();
  const check = (keys: readonly string[], nameOf: (key: string) => string) => {
    const seen = new Set<string>();
    for (const key of keys.filter((one) => !gone.has(one))) {
      const name = names.get(key) ?? nameOf(key);
      if (!/^(?!__)[_A-Za-z]\w*$/.test(name)) mistakes.set(key, "Letters, digits and _ only, no digit first.");
      else if (seen.has(name)) mistakes.set(key, "This name is used twice.");
      seen.add(name);
    }
  };
  check(types.map(({ name }) => name), (key) => key);
  for (const { name, fields, isEnum } of types) {
    if (!gone.has(name) && !isEnum) check(fields.map((field) => keyOf(name, field.name)), (key) => key.slice(name.length + 1));
  }
  if (gone.has("Query")) mistakes.set("", "All types are left out: include one.");
  return mistakes;
}

/**
 * The definition with the edits. A dropped field is replaced by a comment (`# total: Float`), so that it stays out
 * when the collections are read again.
 */
export function revise({ schema, mappings }: Parts, edits: Edits): Parts {
  if (edits.names.size === 0 && edits.dropped.size === 0) return { schema, mappings };
  const gone = findGone(schema, edits.dropped);
  const changes = readNodes(schema).flatMap((node) => changesOf(schema, node, gone, edits));
  return { schema: applyChanges(schema, changes), mappings: reviseMappings(readTypes(schema), mappings, gone, edits.names) };
}

/**
 * The author's schema with comments in place of additions that are left out: those who read the collections again do not add them.
 * `found` is the schema with all additions.
 */
export function leaveOut(schema: string, found: string, left: ReadonlySet<string>): string {
  const own = readNodes(schema);
  const types = new Map(readTypes(found).map(({ name, fields }) => [name, fields]));
  const changes = [...left].map((key): Change => {
    const [owner = "", name] = key.split(".");
    if (name === undefined) return [schema.length, schema.length, `\n# type ${owner}\n`];
    const end = (own.find((node) => node.name.value === owner)?.loc?.end ?? schema.length + 1) - 1;
    const type = types.get(owner)?.find((field) => field.name === name)?.type || "Unknown";
    return [end, end, `${schema[end - 1] === "\n" ? "" : "\n"}  # ${name}: ${type}\n`];
  });
  return applyChanges(schema, changes);
}

/** From the end, so that positions stay valid; the first of several at one position is written first. */
function applyChanges(text: string, changes: readonly Change[]): string {
  return [...changes].reverse().sort(([one], [other]) => other - one).reduce((before, [from, to, put]) => before.slice(0, from) + put + before.slice(to), text);
}

function changesOf(schema: string, node: TypeNode, gone: ReadonlySet<string>, { names, dropped }: Edits): readonly Change[] {
  const owner = node.name.value;
  if (gone.has(owner)) return [[...linesOf(schema, node), dropped.has(owner) ? `# type ${owner}\n` : ""]];
  const changes: Change[] = [];
  const rename = (key: string, { loc }: { loc?: { start: number; end: number } | undefined }) => {
    const name = names.get(key);
    if (name !== undefined && loc !== undefined) changes.push([loc.start, loc.end, name]);
  };
  rename(owner, node.name);
  for (const field of node.kind === Kind.OBJECT_TYPE_DEFINITION ? (node.fields ?? []) : []) {
    const key = keyOf(owner, field.name.value);
    if (gone.has(key)) {
      changes.push([...linesOf(schema, field), dropped.has(key) ? `  # ${field.name.value}: ${print(field.type)}\n` : ""]);
      continue;
    }
    rename(key, field.name);
    visit(field, { NamedType: (type: NamedTypeNode) => rename(type.name.value, type) });
  }
  return changes;
}

/** The lines of a type or field, with the comments above it and behind it. */
function linesOf(schema: string, { loc }: TypeNode | FieldDefinitionNode): readonly [from: number, to: number] {
  let from = schema.lastIndexOf("\n", (loc?.start ?? 0) - 1) + 1;
  for (;;) {
    const before = from === 0 ? 0 : schema.lastIndexOf("\n", from - 2) + 1;
    if (from === 0 || !schema.slice(before, from).trimStart().startsWith("#")) break;
    from = before;
  }
  const end = schema.indexOf("\n", loc?.end ?? 0);
  return [from, end < 0 ? schema.length : end + 1];
}

function reviseMappings(types: readonly FoundType[], mappings: Mappings, gone: ReadonlySet<string>, names: ReadonlyMap<string, string>): Mappings {
  const revised: Record<string, Record<string, unknown>> = {};
  for (const { name: owner, fields, isEnum } of types) {
    if (gone.has(owner)) continue;
    const known = Object.hasOwn(mappings, owner) ? (mappings[owner] ?? {}) : {};
    const own: Record<string, unknown> = {};
    for (const { name, named } of fields) {
      const key = keyOf(owner, name);
      const next = isEnum ? name : (names.get(key) ?? name);
      if (gone.has(key)) continue;
      if (Object.hasOwn(known, name)) own[next] = reviseLists(types, named, known[name], gone, names);
      else if (next !== name) own[next] = name; // it still reads the property of its old name
    }
    if (Object.keys(own).length > 0) revised[names.get(owner) ?? owner] = own;
  }
  return revised;
}

/** `filter` and `orderBy` of a mapping name fields of the type. */
function reviseLists(types: readonly FoundType[], type: string, mapping: unknown, gone: ReadonlySet<string>, names: ReadonlyMap<string, string>): unknown {
  if (!isRecord(mapping)) return mapping;
  const { filter, orderBy, ...rest } = mapping;
  const revised: Record<string, unknown> = rest;
  if (isRecord(filter) && isRecord(filter["fields"])) {
    const fields = Object.entries(filter["fields"]).flatMap(([path, operators]) => revisePath(types, type, path, gone, names).map((next) => [next, operators] as const));
    if (fields.length > 0) revised["filter"] = { ...filter, fields: Object.fromEntries(fields) };
  }
  if (isRecord(orderBy) && Array.isArray(orderBy["fields"])) {
    const fields = orderBy["fields"].flatMap((path) => revisePath(types, type, String(path), gone, names));
    if (fields.length > 0) revised["orderBy"] = { ...orderBy, fields };
  }
  return revised;
}

/** A path of fields by their new names; none if one of them is removed. */
function revisePath(types: readonly FoundType[], type: string, path: string, gone: ReadonlySet<string>, names: ReadonlyMap<string, string>): readonly string[] {
  const steps: string[] = [];
  let owner = type;
  for (const step of path.split(".")) {
    const key = keyOf(owner, step);
    if (gone.has(key)) return [];
    steps.push(names.get(key) ?? step);
    owner = types.find(({ name }) => name === owner)?.fields.find(({ name }) => name === step)?.named ?? "";
  }
  return [steps.join(".")];
}
