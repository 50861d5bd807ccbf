/** A first query for somebody who has not seen the app before. */

import {
  type GraphQLField,
  type GraphQLSchema,
  getNamedType,
  isInterfaceType,
  isLeafType,
  isObjectType,
  isRequiredArgument,
} from "graphql";

const mostFields = 6;
const fewRows = 10;

/** Some fields of the first thing that can be asked without an argument; null where there is none. */
export function writeExample(schema: GraphQLSchema): string | null {
  const fields = Object.values(schema.getQueryType()?.getFields() ?? {});
  const field = fields.find((one) => isPlain(one) && selectionOf(one) !== "") ?? fields.find(isPlain);
  if (field === undefined) return null;
  const limit = field.args.find(({ name, type }) => name === "limit" && String(getNamedType(type)) === "Int");
  return `{\n  ${field.name}${limit ? `(limit: ${fewRows})` : ""}${selectionOf(field)}\n}\n`;
}

function isPlain(field: GraphQLField<unknown, unknown>): boolean {
  return !field.args.some(isRequiredArgument) && (isLeafType(getNamedType(field.type)) || selectionOf(field) !== "");
}

function selectionOf(field: GraphQLField<unknown, unknown>): string {
  const type = getNamedType(field.type);
  if (!isObjectType(type) && !isInterfaceType(type)) return "";
  const leaves = Object.values(type.getFields()).filter((one) => isLeafType(getNamedType(one.type)) && !one.args.some(isRequiredArgument));
  if (leaves.length === 0) return "";
  const lines = leaves.slice(0, mostFields).map(({ name }) => `    ${name}`);
  return ` {\n${lines.join("\n")}\n  }`;
}
