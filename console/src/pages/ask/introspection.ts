/** The schema of an app as the caller sees it. */

import { buildClientSchema, getIntrospectionQuery, type GraphQLSchema, type IntrospectionQuery } from "graphql";
import { ApiError } from "../../api/error.js";
import { type As, appPath, ask, isObject } from "../../api/graphql.js";
import { requireRight } from "../../api/rights.js";

export type SchemaState =
  | { readonly kind: "loading" }
  | { readonly kind: "ready"; readonly schema: GraphQLSchema }
  | { readonly kind: "refused"; readonly status: number; readonly reason: string }
  | { readonly kind: "failed"; readonly error: unknown };

const query = getIntrospectionQuery({ descriptions: true });

/** Load the schema of an app; what prevents that is part of the result. */
export async function introspect(uri: string, as: As | null, signal: AbortSignal): Promise<SchemaState> {
  try {
    if (as === null) await requireRight("POST", appPath(uri));
    const { status, body, errors } = await ask(uri, { query, variables: "", operation: null }, signal, as);
    const data = isObject(body) ? body["data"] : null;
    if (isObject(data) && isObject(data["__schema"])) {
      const schema = buildClientSchema(data as unknown as IntrospectionQuery, { assumeValid: true });
      return { kind: "ready", schema };
    }
    const first = errors[0];
    if (first !== undefined && status !== 401 && status !== 403) {
      return { kind: "refused", status, reason: first.message };
    }
    const told = isObject(body) && as !== null ? body["message"] : ""; // the message for that caller
    return { kind: "refused", status, reason: typeof told === "string" ? told : "" };
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return { kind: "loading" };
    if (error instanceof ApiError && [401, 403].includes(error.status)) return { kind: "refused", status: error.status, reason: "" };
    if (error instanceof ApiError) return { kind: "failed", error };
    return { kind: "failed", error: new ApiError(0, "schema", "The schema cannot be read.", String(error)) };
  }
}
