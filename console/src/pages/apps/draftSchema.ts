/** The schema of a draft. */

import { buildClientSchema, getIntrospectionQuery, type GraphQLSchema, type IntrospectionQuery } from "graphql";
import { isRecord } from "../../api/error.js";
import { type As, tryDraft } from "../../api/tools.js";

const query = getIntrospectionQuery({ descriptions: true });

/** The schema as `as` sees it; null: it could not be loaded, and the first run shows why. */
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
