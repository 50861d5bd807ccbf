/** Example queries for a user who is new to the app. */

import { type GraphQLField, type GraphQLObjectType, type GraphQLSchema, getNamedType, getNullableType, isLeafType, isListType, isObjectType, isRequiredArgument } from "graphql";

export interface Example {
  readonly title: string;
  readonly query: string;
  /** It reads few rows: the page may run it by itself. */
  readonly isSmall: boolean;
}

type AnyField = GraphQLField<unknown, unknown>;

const mostExamples = 4;
const mostFields = 5;
const fewRows = 5;

/** Queries that need no argument, those over a relation first; none where everything needs one. */
export function writeExamples(schema: GraphQLSchema): readonly Example[] {
  const fields = Object.values(schema.getQueryType()?.getFields() ?? {}).filter(isPlain);
  const related = fields.map((field) => relationsOf(field).map((relation) => write(field, relation)));
  const alone = fields.filter((field) => isLeafType(getNamedType(field.type)) || leavesOf(field).length > 0).map((field) => write(field, null));
  // One relation of each field before the second one of any.
  const ordered = [...related.flatMap((all) => all.slice(0, 1)), ...alone, ...related.flatMap((all) => all.slice(1))];
  return ordered.sort((one, other) => Number(other.isSmall) - Number(one.isSmall)).slice(0, mostExamples);
}

function write(field: AnyField, relation: AnyField | null): Example {
  const limit = limitOf(field);
  const lines = leavesOf(field).map(({ name }) => `    ${name}`);
  if (relation !== null) lines.push(`    ${relation.name}${limitOf(relation)} {`, ...leavesOf(relation).map(({ name }) => `      ${name}`), "    }");
  const selection = lines.length === 0 ? "" : ` {\n${lines.join("\n")}\n  }`;
  const isList = isListType(getNullableType(field.type));
  return { title: relation === null ? field.name : `${field.name} with ${relation.name}`, query: `{\n  ${field.name}${limit}${selection}\n}\n`, isSmall: limit !== "" || !isList };
}

function limitOf(field: AnyField): string {
  const isLimited = field.args.some(({ name, type }) => name === "limit" && String(getNamedType(type)) === "Int");
  return isLimited ? `(limit: ${fewRows})` : "";
}

function isPlain(field: AnyField): boolean {
  return !field.args.some(isRequiredArgument) && field.deprecationReason == null;
}

function fieldsOf(field: AnyField): readonly AnyField[] {
  const type = getNamedType(field.type);
  return isObjectType(type) ? Object.values((type as GraphQLObjectType).getFields()).filter(isPlain) : [];
}

function leavesOf(field: AnyField): readonly AnyField[] {
  return fieldsOf(field).filter((one) => isLeafType(getNamedType(one.type))).slice(0, mostFields);
}

function relationsOf(field: AnyField): readonly AnyField[] {
  return fieldsOf(field).filter((one) => isObjectType(getNamedType(one.type)) && leavesOf(one).length > 0);
}
