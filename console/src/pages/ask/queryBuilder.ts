/** The query as the documentation sees it: which fields it has, and how to change them. */

import { type FieldNode, type GraphQLSchema, Kind, type OperationDefinitionNode } from "graphql";
import { type Path, addField, findSelected, isBuildable, removeField, setArgument } from "./builder.js";
import type { Reading } from "./operations.js";

export interface Builder {
  /** The builder of the text as it is now, for what was drawn before. */
  readonly latest: { readonly current: Builder | null };
  readonly operation: OperationDefinitionNode | null;
  readonly schema: GraphQLSchema | undefined;
  /** The variables of the operation. */
  readonly variables: ReadonlySet<string>;
  /** Why nothing can be added now; null: it can. */
  readonly obstacle: string | null;
  isSelected(path: Path): boolean;
  /** The field at a path, with its arguments; null where it is not selected. */
  fieldAt(path: Path): FieldNode | null;
  toggle(path: Path): void;
  /** Give an argument a value, or none (null). */
  setArgument(path: Path, name: string, value: string | null): void;
}

interface Built {
  readonly text: string;
  readonly reading: Reading;
  readonly operation: OperationDefinitionNode | null;
  readonly schema: GraphQLSchema | undefined;
  /** Receives the next text. */
  readonly onChange: (text: string) => void;
}

/** A builder for the text of a query. */
export function makeBuilder({ text, reading, operation, schema, onChange }: Built, latest: { current: Builder | null }): Builder {
  const obstacle = reading.fault !== null ? "The query has a mistake: fix it, then check fields here." : isBuildable(operation) ? null : "Fields can be added to queries only.";
  const isReady = obstacle === null && schema !== undefined;
  const fieldAt = (path: Path) => {
    const found = findSelected(operation, path);
    return found?.kind === Kind.FIELD ? found : null;
  };
  const isSelected = (path: Path) => findSelected(operation, path) !== null;
  latest.current = {
    latest,
    operation,
    schema,
    variables: new Set(operation?.variableDefinitions?.map((one) => one.variable.name.value)),
    obstacle,
    isSelected,
    fieldAt,
    toggle: (path) => {
      if (!isReady) return;
      onChange(operation !== null && isSelected(path) ? removeField(text, operation, path) : addField(text, schema, operation, path));
    },
    setArgument: (path, name, value) => {
      const field = fieldAt(path);
      if (isReady && field !== null) onChange(setArgument(text, field, name, value));
    },
  };
  return latest.current;
}
