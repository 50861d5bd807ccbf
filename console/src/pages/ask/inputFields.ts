/** Fields of input objects, such as conditions: which of them a value has, and the value with others. */

import { type GraphQLInputField, type GraphQLInputType, Kind, type ValueNode, getNamedType, getNullableType, isInputObjectType, isListType, parseValue } from "graphql";
import { placeholderOf, printInLine } from "./literals.js";

/** Names of fields from the argument on. */
export type InputPath = readonly string[];

/** The fields of an input object, also of those in a list. */
export function inputFieldsOf(type: GraphQLInputType): readonly GraphQLInputField[] {
  const named = getNamedType(type);
  return isInputObjectType(named) ? Object.values(named.getFields()) : [];
}

/** The value of a field; in a list, the one of the first object that has the field. */
export function findInput(value: ValueNode | undefined, path: InputPath): ValueNode | undefined {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (value?.kind === Kind.LIST) return value.values.map((element) => findInput(element, path)).find((one) => one !== undefined);
  return value?.kind === Kind.OBJECT ? findInput(value.fields.find((one) => one.name.value === name)?.value, rest) : undefined;
}

/** The argument with a field that it does not have yet. */
export function addInput(type: GraphQLInputType, value: ValueNode | undefined, path: InputPath): string | null {
  let [at, isInList] = [type, false];
  for (const name of path) {
    isInList ||= isListType(getNullableType(at));
    at = inputFieldsOf(at).find((one) => one.name === name)?.type ?? at;
  }
  return setInput(type, value, path, isInList ? fillIn(at, []) : placeholderOf(at));
}

/** The argument with another value of a field, or without the field (null); null: the argument has no field then. */
export function setInput(type: GraphQLInputType, value: ValueNode | undefined, path: InputPath, literal: string | null): string | null {
  const changed = change(type, value, path, literal);
  const parts = changed?.kind === Kind.LIST ? changed.values : changed?.kind === Kind.OBJECT ? changed.fields : [changed];
  return changed === null || parts.length === 0 ? null : printInLine(changed);
}

function change(type: GraphQLInputType, value: ValueNode | undefined, path: InputPath, literal: string | null): ValueNode | null {
  const [name, ...rest] = path;
  if (name === undefined) return literal === null ? null : parseValue(literal);
  const bare = getNullableType(type);
  if (isListType(bare) && value?.kind !== Kind.OBJECT) return changeList(bare.ofType, value?.kind === Kind.LIST ? value.values : [], path, literal);
  const fields = value?.kind === Kind.OBJECT ? value.fields : [];
  const present = fields.find((one) => one.name.value === name);
  const inner = change(inputFieldsOf(type).find((one) => one.name === name)?.type ?? type, present?.value, rest, literal);
  const changed = inner === null ? [] : [{ kind: Kind.OBJECT_FIELD as const, name: { kind: Kind.NAME as const, value: name }, value: inner }];
  return { kind: Kind.OBJECT, fields: present ? fields.flatMap((one) => (one === present ? changed : [one])) : [...fields, ...changed] };
}

/** Each added field is an object of its own: an order has one field in each. Objects that lose their only field go. */
function changeList(type: GraphQLInputType, values: readonly ValueNode[], path: InputPath, literal: string | null): ValueNode {
  const holders = values.filter((one) => findInput(one, path) !== undefined);
  if (literal === null) {
    const without = (one: ValueNode) => [change(type, one, path, null)!].filter((left) => !isHollow(left));
    return { kind: Kind.LIST, values: values.flatMap((one) => (holders.includes(one) ? without(one) : [one])) };
  }
  const element = change(type, holders[0], path, literal)!;
  return { kind: Kind.LIST, values: holders.length === 0 ? [...values, element] : values.map((one) => (one === holders[0] ? element : one)) };
}

function isHollow(value: ValueNode): boolean {
  return value.kind === Kind.OBJECT && value.fields.every((one) => isHollow(one.value));
}

/** An object with its first field, down to a value. */
function fillIn(type: GraphQLInputType, above: readonly string[]): string {
  const fields = inputFieldsOf(type);
  const first = fields.find((one) => inputFieldsOf(one.type).length === 0) ?? fields[0];
  const { name } = getNamedType(type);
  if (first === undefined || isListType(getNullableType(type)) || above.includes(name)) return placeholderOf(type);
  return `{${first.name}: ${fillIn(first.type, [...above, name])}}`;
}
