/** The variables of an operation: what is wrong with those that are given, and what could be typed. */

import {
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  isEnumType,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  typeFromAST,
} from "graphql";
import type { Completions, Finding } from "../../parts/Editor.js";
import { type JsonNode, findSpot, parseWithPlaces } from "./jsonText.js";

export interface Variable {
  readonly name: string;
  readonly type: GraphQLInputType;
  readonly isRequired: boolean;
}

const mostFindings = 50;

/** The variables of an operation with types that the schema knows. */
export function variablesOf(operation: OperationDefinitionNode | null, schema: GraphQLSchema | undefined): readonly Variable[] | null {
  if (operation === null || schema === undefined) return null;
  return (operation.variableDefinitions ?? []).flatMap((definition) => {
    const type = typeFromAST(schema, definition.type);
    if (!isInputType(type)) return [];
    const isRequired = isNonNullType(type) && definition.defaultValue === undefined;
    return [{ name: definition.variable.name.value, type, isRequired }];
  });
}

interface Fault {
  readonly from: number;
  readonly to: number;
  readonly message: string;
  readonly severity: "error" | "warning";
}

/** What is wrong with the variables; the editor itself marks a text that is not JSON. */
export function checkVariables(text: string, variables: readonly Variable[] | null): readonly Finding[] {
  if (variables === null) return [];
  const missing = text.trim() ? [] : variables.filter((one) => one.isRequired);
  if (missing.length > 0) return [{ line: 1, severity: "warning", message: `Missing: ${namesOf(missing)}` }];
  const node = text.trim() ? parseWithPlaces(text) : null;
  if (node === null) return [];
  const faults = node.kind === "object" ? [...checkMembers(node, variables)] : [fault(node, "Variables are an object: {\"name\": value}")];
  return faults.slice(0, mostFindings).map((one) => place(text, one));
}

function* checkMembers(node: JsonNode, variables: readonly Variable[]): Generator<Fault> {
  for (const { name, from, to, node: value } of node.members ?? []) {
    const variable = variables.find((one) => one.name === name);
    if (variable) yield* checkValue(value, variable.type);
    else yield { from, to, severity: "warning", message: `The operation has no variable $${name}` };
  }
  const given = new Set(node.members?.map((one) => one.name));
  const missing = variables.filter((one) => one.isRequired && !given.has(one.name));
  if (missing.length > 0) yield { from: node.from, to: node.from + 1, severity: "error", message: `Missing: ${namesOf(missing)}` };
}

function namesOf(variables: readonly Variable[]): string {
  return variables.map(({ name, type }) => `$${name} (${String(type)})`).join(", ");
}

function* checkValue(node: JsonNode, type: GraphQLInputType): Generator<Fault> {
  if (isNonNullType(type)) {
    if (node.kind === "null") yield fault(node, `${String(type)} must not be null`);
    else yield* checkValue(node, type.ofType);
  } else if (node.kind === "null") return;
  else if (isListType(type)) {
    // A single value means a list with this value.
    for (const one of node.elements ?? [node]) yield* checkValue(one, type.ofType);
  } else if (isInputObjectType(type)) yield* checkObject(node, type);
  else if (isEnumType(type)) {
    const values = type.getValues().map((one) => one.name);
    if (!values.includes(String(node.value))) yield fault(node, `One of ${values.slice(0, 20).join(", ")} is expected`);
  } else if (!fits(node, type.name)) yield fault(node, `${type.name} is expected`);
}

function* checkObject(node: JsonNode, type: Extract<GraphQLInputType, { getFields: unknown }>): Generator<Fault> {
  if (node.kind !== "object") {
    yield fault(node, `An object of ${type.name} is expected`);
    return;
  }
  const fields = type.getFields();
  for (const { name, from, to, node: value } of node.members ?? []) {
    const field = fields[name];
    if (field) yield* checkValue(value, field.type);
    else yield { from, to, severity: "error", message: `${type.name} has no field ${name}` };
  }
  const given = new Set(node.members?.map((one) => one.name));
  const missing = Object.values(fields).filter((one) => isRequiredInputField(one) && !given.has(one.name));
  if (missing.length > 0) yield fault(node, `Missing: ${missing.map((one) => one.name).join(", ")}`);
}

/** The server's own scalars accept many forms; the server reports what it rejects. */
function fits({ kind, value }: JsonNode, scalar: string): boolean {
  switch (scalar) {
    case "Int":
      return typeof value === "number" && Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31;
    case "Float":
      return kind === "number";
    case "String":
      return kind === "text";
    case "Boolean":
      return kind === "boolean";
    case "ID":
      return kind === "text" || kind === "number";
    default:
      return true;
  }
}

function fault({ from, to }: JsonNode, message: string): Fault {
  return { from, to, message, severity: "error" };
}

function place(text: string, { from, to, message, severity }: Fault): Finding {
  const [line, column] = lineAndColumn(text, from);
  const [endLine, endColumn] = lineAndColumn(text, to);
  return { line, column, endLine, endColumn, severity, message };
}

function lineAndColumn(text: string, offset: number): readonly [number, number] {
  const lines = text.slice(0, offset).split("\n");
  return [lines.length, (lines.at(-1) ?? "").length + 1];
}

/** The completions at the end of a text: names of variables and fields, values of enums. */
export function completeVariables(before: string, variables: readonly Variable[] | null): Completions | null {
  const spot = variables === null ? null : findSpot(before);
  if (variables === null || spot === null) return null;
  const around = spot.path.reduce<Level | null>(descend, { variables });
  if (around === null) return null;
  const options = spot.isName ? namesAt(around).filter((one) => !spot.siblings.includes(one.name)).map(asName) : valuesAt(around);
  return options.length === 0 ? null : { from: spot.from, options };
}

type Level = { readonly variables: readonly Variable[] } | { readonly type: GraphQLInputType };

function descend(level: Level | null, name: string | null): Level | null {
  if (level === null) return null;
  if ("variables" in level) {
    const found = level.variables.find((one) => one.name === name);
    return found ? { type: found.type } : null;
  }
  const type = bare(level.type);
  if (name === null) return isListType(type) ? { type: type.ofType } : null;
  const object = isListType(type) ? bare(type.ofType) : type;
  const field = isInputObjectType(object) ? object.getFields()[name] : undefined;
  return field ? { type: field.type } : null;
}

function bare(type: GraphQLInputType): GraphQLInputType {
  return isNonNullType(type) ? type.ofType : type;
}

interface Named {
  readonly name: string;
  readonly type: GraphQLInputType;
}

function namesAt(level: Level): readonly Named[] {
  if ("variables" in level) return level.variables;
  const type = bare(level.type);
  const object = isListType(type) ? bare(type.ofType) : type;
  return isInputObjectType(object) ? Object.values(object.getFields()) : [];
}

function asName({ name, type }: Named): Completions["options"][number] {
  return { label: `"${name}"`, detail: String(type), apply: `"${name}": ` };
}

function valuesAt(level: Level): Completions["options"] {
  if ("variables" in level) return [];
  const type = bare(level.type);
  if (isEnumType(type)) return type.getValues().map(({ name }) => ({ label: `"${name}"`, detail: type.name }));
  if (String(type) === "Boolean") return ["true", "false"].map((label) => ({ label, detail: "Boolean" }));
  return [];
}
