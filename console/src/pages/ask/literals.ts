/** Values of arguments: what an input shows of them, and what is written into the query. */

import {
  type GraphQLInputType,
  Kind,
  type ValueNode,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isRequiredInputField,
  parseValue,
  print,
} from "graphql";

/** How a value is given: one of a few, a number, a text, or a GraphQL literal. */
export type InputKind = "choice" | "number" | "text" | "literal";

const wholes = ["Int", "Long"];
const numbers = [...wholes, "Float"];
const documents = ["BsonDocument"];

export function kindOfInput(type: GraphQLInputType): InputKind {
  const bare = getNullableType(type);
  if (isListType(bare) || isInputObjectType(bare) || documents.includes(String(bare))) return "literal";
  if (isEnumType(bare) || String(bare) === "Boolean") return "choice";
  return numbers.includes(String(bare)) ? "number" : "text";
}

/** What can be chosen for a value of this type. */
export function choicesOf(type: GraphQLInputType): readonly string[] {
  const bare = getNullableType(type);
  return isEnumType(bare) ? bare.getValues().map((one) => one.name) : ["true", "false"];
}

/** A valid value for a required argument, until the user enters one. */
export function placeholderOf(type: GraphQLInputType): string {
  const bare = getNullableType(type);
  if (isListType(bare)) return "[]";
  if (isInputObjectType(bare)) {
    const needed = Object.values(bare.getFields()).filter(isRequiredInputField);
    return `{${needed.map((one) => `${one.name}: ${placeholderOf(one.type)}`).join(", ")}}`;
  }
  if (isEnumType(bare)) return bare.getValues()[0]?.name ?? "null";
  if (String(bare) === "Boolean") return "false";
  if (documents.includes(String(bare))) return "{}";
  return numbers.includes(String(bare)) ? "0" : '""';
}

/** What an input shows of a value in a query; a text without its quotes where it is one. */
export function showValue(type: GraphQLInputType, node: ValueNode | undefined): string {
  if (node === undefined) return "";
  return kindOfInput(type) === "text" && node.kind === Kind.STRING ? node.value : print(node).replace(/\s+/g, " ");
}

/** Whether the usual input of the type can show this value; a variable cannot be chosen from a list. */
export function fitsInput(type: GraphQLInputType, node: ValueNode | undefined): boolean {
  return kindOfInput(type) !== "choice" || node === undefined || choicesOf(type).includes(print(node));
}

export type WrittenValue = { readonly literal: string | null } | { readonly fault: string };

/** What the query has for the text of an input; null: the argument is left out. */
export function writeValue(type: GraphQLInputType, text: string, variables: ReadonlySet<string>): WrittenValue {
  const given = text.trim();
  const bare = String(getNullableType(type));
  if (given === "") return { literal: null };
  if (given.startsWith("$") && variables.has(given.slice(1))) return { literal: given };
  switch (kindOfInput(type)) {
    case "choice":
      return choicesOf(type).includes(given) ? { literal: given } : { fault: `Choose one of ${choicesOf(type).join(", ")}` };
    case "number":
      return writeNumber(bare, given);
    case "text":
      return { literal: JSON.stringify(text) };
    case "literal":
      return writeLiteral(given);
  }
}

function writeNumber(type: string, given: string): WrittenValue {
  if (wholes.includes(type)) {
    if (!/^-?(0|[1-9]\d*)$/.test(given)) return { fault: "Enter a whole number" };
    return type === "Int" && Math.abs(Number(given)) > 2 ** 31 - 1 ? { fault: "Enter a number within 32 bits" } : { literal: given };
  }
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(given) ? { literal: given } : { fault: "Enter a number" };
}

function writeLiteral(given: string): WrittenValue {
  try {
    return { literal: print(parseValue(given, { maxTokens: 2000 })).replace(/\s*\n\s*/g, " ") };
  } catch {
    return { fault: 'Enter a value as in a query, such as ["a", "b"] or {name: "a"}' };
  }
}
