/** The query as the documentation sees it: which fields it has, and how to change them. */

import { type FieldNode, type GraphQLSchema, Kind, type OperationDefinitionNode } from "graphql";
import { type Path, addField, findSelected, isBuildable, removeField, setArgument } from "./builder.js";
import type { Reading } from "./operations.js";

export interface Builder {
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

/** A builder for the text of a query; `onChange` receives the next text. */
export function makeBuilder(text: string, reading: Reading, operation: OperationDefinitionNode | null, schema: GraphQLSchema | undefined, onChange: (text: string) => void): Builder {
  const obstacle = reading.fault !== null ? "The query has a mistake: fix it, then check fields here." : isBuildable(operation) ? null : "Fields can be added to queries only.";
  const isReady = obstacle === null && schema !== undefined;
  const fieldAt = (path: Path) => {
    const found = findSelected(operation, path);
    return found?.kind === Kind.FIELD ? found : null;
  };
  const isSelected = (path: Path) => findSelected(operation, path) !== null;
  return {
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
}
