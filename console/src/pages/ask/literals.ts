/** Values of arguments: what an input shows of them, and what is written into the query. */

import {
  type GraphQLInputType,
  Kind,
  type StringValueNode,
  type ValueNode,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isRequiredInputField,
  parseValue,
  print,
  visit,
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

/** What an input shows of a value in a query; a text without its quotes, unless it means something else then, or has line breaks. */
export function showValue(type: GraphQLInputType, node: ValueNode | undefined, variables: ReadonlySet<string>, isRequired = false): string {
  if (node === undefined) return "";
  if (kindOfInput(type) !== "text" || node.kind !== Kind.STRING || /[\r\n]/.test(node.value)) return printInLine(node);
  const written = writeValue(type, node.value, variables, isRequired);
  return "literal" in written && written.literal === JSON.stringify(node.value) ? node.value : printInLine(node);
}

/** A value without line breaks: those in texts are `\n`. */
export function printInLine(node: ValueNode): string {
  return print(visit(node, { StringValue: (text: StringValueNode) => ({ ...text, block: false }) }));
}

/** Whether the usual input of the type can show this value; a variable cannot be chosen from a list. */
export function fitsInput(type: GraphQLInputType, node: ValueNode | undefined): boolean {
  return kindOfInput(type) !== "choice" || node === undefined || choicesOf(type).includes(print(node));
}

export type WrittenValue = { readonly literal: string | null } | { readonly fault: string };

/** What the query has for the text of an input; null: the argument is left out. A required text can be empty. */
export function writeValue(type: GraphQLInputType, text: string, variables: ReadonlySet<string>, isRequired = false): WrittenValue {
  const given = text.trim();
  const kind = kindOfInput(type);
  if (kind === "text" && text === "" && isRequired) return { literal: '""' };
  if (kind === "text" ? text === "" : given === "") return { literal: null };
  if (given.startsWith("$") && variables.has(given.slice(1))) return { literal: given };
  switch (kind) {
    case "choice":
      return choicesOf(type).includes(given) ? { literal: given } : { fault: `Choose one of ${choicesOf(type).join(", ")}` };
    case "number":
      return writeNumber(String(getNullableType(type)), given);
    case "text":
      return text.startsWith('"') ? writeQuoted(text) : { literal: JSON.stringify(text) };
    case "literal":
      return readLiteral(given) ?? { fault: 'Enter a value as in a query, such as ["a", "b"] or {name: "a"}' };
  }
}

function writeNumber(type: string, given: string): WrittenValue {
  if (wholes.includes(type)) {
    if (!/^-?(0|[1-9]\d*)$/.test(given)) return { fault: "Enter a whole number" };
    return type === "Int" && (Number(given) < -(2 ** 31) || Number(given) >= 2 ** 31) ? { fault: "Enter a number within 32 bits" } : { literal: given };
  }
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(given) ? { literal: given } : { fault: "Enter a number" };
}

function writeQuoted(text: string): WrittenValue {
  const written = readLiteral(text);
  return written?.literal.startsWith('"') ? written : { fault: 'A text that begins with " is written as in a query: "a", "say \\"a\\""' };
}

function readLiteral(given: string): { readonly literal: string } | null {
  try {
    return { literal: printInLine(parseValue(given, { maxTokens: 2000 })) };
  } catch {
    return null;
  }
}
