/** The schema of an app for its caller, loaded again for another caller, and after a login that ended meanwhile. */

import type { GraphQLSchema } from "graphql";
import { useEffect, useState } from "preact/hooks";
import type { As } from "../../api/graphql.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import type { Spot } from "./docsModel.js";
import { type SchemaState, introspect } from "./introspection.js";

export function useSchema(app: string, owner: string | null, as: As | null): { readonly state: SchemaState; readonly again: () => void } {
  const [state, setState] = useState<SchemaState>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  const { hasExpired } = useStore(sessionState);
  useEffect(() => {
    if (!hasExpired && state.kind === "refused" && state.status === 401) setAttempt(attempt + 1);
  }, [hasExpired]);
  useEffect(() => {
    const controller = new AbortController();
    setState({ kind: "loading" });
    void introspect(app, as, controller.signal).then((found) => {
      if (!controller.signal.aborted) setState(found);
    });
    return () => controller.abort();
  }, [app, owner, as, attempt]);
  return { state, again: () => setAttempt(attempt + 1) };
}

/** The position in the documentation of the name that the editor points at. */
export function spotOf(
  schema: GraphQLSchema | undefined,
  field: string | undefined,
  type: string | undefined,
  parentType: string | undefined,
): Spot | null {
  if (schema === undefined) return null;
  if (field !== undefined && parentType !== undefined && schema.getType(parentType)) return { type: parentType, field };
  const bare = type?.replace(/[[\]!]/g, "");
  return bare !== undefined && schema.getType(bare) ? { type: bare } : null;
}
