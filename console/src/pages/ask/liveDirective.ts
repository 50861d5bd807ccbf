/** The directive `@live` of an operation. */

import { type GraphQLSchema, Kind, OperationTypeNode, type OperationDefinitionNode } from "graphql";

const name = "live";

/** Whether the caller may follow queries of this app; unknown where the schema is. */
export function allowsLive(schema: GraphQLSchema | undefined): boolean | undefined {
  return schema === undefined ? undefined : schema.getDirective(name) != null;
}

export function isLive(operation: OperationDefinitionNode | null): boolean {
  return operation?.directives?.some((one) => one.name.value === name) ?? false;
}

/** The text with the directive at this operation, or without it. */
export function toggleLive(text: string, { kind, operation, directives, selectionSet, loc }: OperationDefinitionNode): string {
  const found = directives?.find((one) => one.name.value === name)?.loc;
  if (found) {
    const from = text[found.start - 1] === " " ? found.start - 1 : found.start;
    return text.slice(0, from) + text.slice(found.end);
  }
  const at = selectionSet.loc?.start;
  if (kind !== Kind.OPERATION_DEFINITION || operation !== OperationTypeNode.QUERY || at === undefined) return text;
  const isShort = loc?.start === at; // `{ … }` without the word
  const gap = /\s$/.test(text.slice(0, at)) || isShort ? "" : " ";
  return `${text.slice(0, at)}${isShort ? "query " : gap}@${name} ${text.slice(at)}`;
}
