/** The schema of a draft, and a first query for it. */

import {
  buildClientSchema,
  getIntrospectionQuery,
  getNamedType,
  type GraphQLSchema,
  type GraphQLField,
  type GraphQLOutputType,
  type IntrospectionQuery,
  isLeafType,
  isObjectType,
  isInterfaceType,
  isRequiredArgument,
} from "graphql";
import { isRecord } from "../../api/error.js";
import { type As, tryDraft } from "../../api/tools.js";

const query = getIntrospectionQuery({ descriptions: true });
const mostLeaves = 6;

/** The schema as `as` sees it; null where it cannot be had, which the first run explains. */
export async function readDraftSchema(definition: string, as: As, signal: AbortSignal): Promise<GraphQLSchema | null> {
  try {
    const { body } = await tryDraft(definition, { query, variables: "" }, as, signal);
    const data = isRecord(body) ? body["data"] : null;
    if (!isRecord(data) || !isRecord(data["__schema"])) return null;
    return buildClientSchema(data as unknown as IntrospectionQuery, { assumeValid: true });
  } catch {
    return null;
  }
}

/** The first question that needs no arguments, with its plain fields. */
export function suggestQuery(schema: GraphQLSchema): string {
  const fields = Object.values(schema.getQueryType()?.getFields() ?? {});
  const field = fields.find((one) => !one.args.some(isRequiredArgument));
  if (field === undefined) return "{\n  __typename\n}\n";
  const leaves = listLeaves(field.type);
  if (leaves === null) return `{\n  ${field.name}\n}\n`;
  return `{\n  ${field.name} {\n${leaves.map((name) => `    ${name}\n`).join("")}  }\n}\n`;
}

function listLeaves(type: GraphQLOutputType): readonly string[] | null {
  const named = getNamedType(type);
  if (isLeafType(named)) return null;
  const all: readonly GraphQLField<unknown, unknown>[] = isObjectType(named) || isInterfaceType(named) ? Object.values(named.getFields()) : [];
  const leaves = all.filter((one) => isLeafType(getNamedType(one.type)) && !one.args.some(isRequiredArgument));
  return leaves.length === 0 ? ["__typename"] : leaves.slice(0, mostLeaves).map((one) => one.name);
}
