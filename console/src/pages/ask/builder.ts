/** Fields added to the text of a query and removed from it; the rest of the text stays as it was written. */

import {
  type FieldNode,
  type GraphQLField,
  type GraphQLNamedType,
  type GraphQLSchema,
  Kind,
  OperationTypeNode,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type Token,
  TokenKind,
  TypeInfo,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isLeafType,
  isObjectType,
  isRequiredArgument,
  visit,
  visitWithTypeInfo,
} from "graphql";
import type { Spot } from "./docsModel.js";
import { placeholderOf } from "./literals.js";

/** Names of fields from the root on; `...Type` is a fragment on a type. */
export type Path = readonly string[];

export type AnyField = GraphQLField<unknown, unknown>;

const mostLeaves = 2; // fields that a new object begins with
const fragment = "...";

/** The fields of a type, as far as it has some. */
export function fieldsOf(type: GraphQLNamedType | undefined): readonly AnyField[] {
  return isObjectType(type) || isInterfaceType(type) ? Object.values(type.getFields()) : [];
}

/** What the operation selects at a path; null: nothing. */
export function findSelected(operation: OperationDefinitionNode | null, path: Path): SelectionNode | null {
  return findChain(operation, path).at(path.length - 1) ?? null;
}

/** The selections along a path, as far as it is selected. */
function findChain(operation: OperationDefinitionNode | null, path: Path): readonly SelectionNode[] {
  const chain: SelectionNode[] = [];
  let set = operation?.selectionSet;
  for (const step of path) {
    const found = set?.selections.find((one) => nameOf(one) === step);
    if (found === undefined) break;
    chain.push(found);
    set = setOf(found);
  }
  return chain;
}

function nameOf(node: SelectionNode): string {
  if (node.kind === Kind.FIELD) return node.name.value;
  return node.kind === Kind.INLINE_FRAGMENT ? `${fragment}${node.typeCondition?.name.value ?? ""}` : "";
}

function setOf(node: SelectionNode): SelectionSetNode | undefined {
  return node.kind === Kind.FRAGMENT_SPREAD ? undefined : node.selectionSet;
}

/** The text with a field at this path, and everything that it needs: arguments without a default, and fields of an object. */
export function addField(text: string, schema: GraphQLSchema, operation: OperationDefinitionNode | null, path: Path): string {
  const chain = findChain(operation, path);
  if (path.length === 0 || chain.length === path.length) return text;
  const type = typeAt(schema, path.slice(0, chain.length));
  const added = type && write(schema, type, path.slice(chain.length));
  if (!added) return text;
  const last = chain.at(-1);
  const set = last ? setOf(last) : operation?.selectionSet;
  if (set) return insert(text, set, added);
  if (last) return `${text.slice(0, last.loc!.end)} { ${layOutInline(added)} }${text.slice(last.loc!.end)}`; // it had no fields yet
  return `${text.trim() === "" ? "" : `${text.trimEnd()}\n`}{\n${layOut(added, "  ")}\n}\n`;
}

interface Written {
  readonly head: string;
  readonly below: readonly Written[];
}

function write(schema: GraphQLSchema, parent: GraphQLNamedType, [step = "", ...rest]: Path): Written | null {
  const [type, head] = step.startsWith(fragment) ? [schema.getType(step.slice(fragment.length)), `... on ${step.slice(fragment.length)}`] : headOf(parent, step);
  if (type === undefined) return null;
  if (rest.length > 0) {
    const below = write(schema, type, rest);
    return below && { head, below: [below] };
  }
  return { head, below: isLeafType(type) ? [] : firstFields(type).map((name) => ({ head: name, below: [] })) };
}

function headOf(parent: GraphQLNamedType, name: string): readonly [GraphQLNamedType | undefined, string] {
  const field = fieldsOf(parent).find((one) => one.name === name);
  const needed = field?.args.filter(isRequiredArgument).map((one) => `${one.name}: ${placeholderOf(one.type)}`) ?? [];
  return [field && getNamedType(field.type), needed.length === 0 ? name : `${name}(${needed.join(", ")})`];
}

function firstFields(type: GraphQLNamedType): readonly string[] {
  const plain = fieldsOf(type).filter((one) => isLeafType(getNamedType(one.type)) && !one.args.some(isRequiredArgument) && one.deprecationReason == null);
  return plain.length === 0 ? ["__typename"] : plain.slice(0, mostLeaves).map((one) => one.name);
}

function typeAt(schema: GraphQLSchema, path: Path): GraphQLNamedType | undefined {
  let type: GraphQLNamedType | undefined = schema.getQueryType() ?? undefined;
  for (const step of path) {
    if (step.startsWith(fragment)) type = schema.getType(step.slice(fragment.length));
    else type = type && headOf(type, step)[0];
  }
  return type;
}

function insert(text: string, { loc, selections }: SelectionSetNode, added: Written): string {
  const close = loc!.end - 1;
  const before = text.slice(0, close).trimEnd();
  const isOneLine = !/[\r\n]/.test(text.slice(loc!.start, close));
  if (isOneLine) return `${before} ${layOutInline(added)} ${text.slice(close)}`;
  const indent = indentAt(text, beginsLine(text, close) ? close : loc!.start);
  const first = selections[0]!.loc!.start;
  return `${before}\n${layOut(added, beginsLine(text, first) ? indentAt(text, first) : `${indent}  `)}\n${indent}${text.slice(close)}`;
}

function beginsLine(text: string, at: number): boolean {
  return text.slice(text.lastIndexOf("\n", at - 1) + 1, at).trim() === "";
}

/** The space before the first sign of the line of a place. */
function indentAt(text: string, at: number): string {
  return /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1))![0];
}

function layOut({ head, below }: Written, indent: string): string {
  if (below.length === 0) return indent + head;
  return `${indent}${head} {\n${below.map((one) => layOut(one, `${indent}  `)).join("\n")}\n${indent}}`;
}

function layOutInline({ head, below }: Written): string {
  return below.length === 0 ? head : `${head} { ${below.map(layOutInline).join(" ")} }`;
}

/** The text without what is selected at a path; an object without fields goes with its last field. */
export function removeField(text: string, operation: OperationDefinitionNode, path: Path): string {
  const chain = findChain(operation, path);
  if (chain.length < path.length) return text;
  let depth = path.length - 1;
  while (depth > 0 && setOf(chain[depth - 1]!)?.selections.length === 1) depth -= 1;
  const isAll = depth === 0 && operation.selectionSet.selections.length === 1;
  const { start, end } = isAll ? operation.loc! : chain[depth]!.loc!;
  const left = cut(text, start, end);
  return left.trim() === "" ? "" : left;
}

/** The text without a part of it: whole lines where it has them for itself, else the space before it. */
function cut(text: string, start: number, end: number): string {
  const rest = /^[ \t,]*(\r?\n|$)/.exec(text.slice(end));
  if (rest && beginsLine(text, start)) return text.slice(0, text.lastIndexOf("\n", start - 1) + 1) + text.slice(end + rest[0].length);
  const before = text.slice(0, start).replace(/[ \t,]*$/, "");
  const after = text.slice(end);
  return join(before, before.endsWith("(") ? after.replace(/^[ \t,]*/, "") : before.endsWith("{") ? after.replace(/^[ \t]*,+/, "") : after);
}

/** The text with another value of an argument of a field; null: without the argument. */
export function setArgument(text: string, field: FieldNode, name: string, value: string | null): string {
  const all = field.arguments ?? [];
  const found = all.find((one) => one.name.value === name);
  if (found) {
    if (value !== null) return join(text.slice(0, found.value.loc!.start), value, text.slice(found.value.loc!.end));
    if (all.length > 1) return cut(text, found.loc!.start, found.loc!.end);
    const [open, close] = [nearest(found.loc!.startToken, TokenKind.PAREN_L, "prev"), nearest(found.loc!.endToken, TokenKind.PAREN_R, "next")];
    return join(text.slice(0, open.start), text.slice(close.end));
  }
  if (value === null) return text;
  const last = all.at(-1);
  const at = last?.loc?.end ?? field.name.loc!.end;
  return join(text.slice(0, at), last ? `, ${name}: ${value}` : `(${name}: ${value})`, text.slice(at));
}

/** The next token of a kind; brackets in comments and texts are none. */
function nearest(token: Token, kind: TokenKind, direction: "prev" | "next"): Token {
  let found = token;
  while (found.kind !== kind && found[direction] !== null) found = found[direction]!;
  return found;
}

/** Parts of a text one after the other; two names or numbers stay apart. */
function join(...parts: readonly string[]): string {
  return parts.reduce((before, part) => (/\w$/.test(before) && /^\w/.test(part) ? `${before} ${part}` : before + part));
}

/** The path where fields of a type are added: the one by which the reader came to the type, or that of the first such object in the query. */
export function findPlace(schema: GraphQLSchema, operation: OperationDefinitionNode | null, type: string, way: readonly Spot[]): Path | null {
  if (type === schema.getQueryType()?.name) return [];
  return pathOfWay(schema, type, way) ?? (operation && pathInQuery(schema, operation, type));
}

function pathOfWay(schema: GraphQLSchema, type: string, way: readonly Spot[]): Path | null {
  let path: readonly string[] | null = null;
  let at = "";
  for (const spot of way) {
    if (spot.type === schema.getQueryType()?.name) [path, at] = [[], spot.type];
    if (path === null || spot.type !== at) path = null;
    else if (spot.field !== undefined) {
      path = [...path, spot.field];
      at = typeAt(schema, path)?.name ?? "";
    }
  }
  return at === type ? path : null;
}

function pathInQuery(schema: GraphQLSchema, operation: OperationDefinitionNode, type: string): Path | null {
  const types = new TypeInfo(schema);
  const steps: string[] = [];
  let found: Path | null = null;
  const enter = (node: SelectionNode) => {
    steps.push(nameOf(node));
    const own = types.getType();
    if (found === null && own && getNamedType(own).name === type) found = [...steps];
  };
  const leave = () => void steps.pop();
  visit(operation, visitWithTypeInfo(types, { Field: { enter, leave }, InlineFragment: { enter, leave } }));
  return found;
}

/** Whether fields can be added to this operation; there may be none yet. */
export function isBuildable(operation: OperationDefinitionNode | null): boolean {
  return operation === null || operation.operation === OperationTypeNode.QUERY;
}

/** The types that a fragment can be on below a field of this type. */
export function variantsOf(schema: GraphQLSchema, type: GraphQLNamedType): readonly GraphQLNamedType[] {
  return isAbstractType(type) ? schema.getPossibleTypes(type) : [];
}
