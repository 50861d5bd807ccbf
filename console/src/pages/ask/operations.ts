/** The operations of a query text, read as far as it can be read. */

import { Kind, parse, print } from "graphql";
import type { OperationDefinitionNode } from "graphql";

export interface Reading {
  readonly operations: readonly OperationDefinitionNode[];
  /** Why the text could not be read; null where it could. */
  readonly fault: string | null;
}

const nothing: Reading = { operations: [], fault: null };

export function readOperations(query: string): Reading {
  if (!query.replace(/#.*$/gm, "").trim()) return nothing;
  try {
    const document = parse(query, { maxTokens: 20_000 });
    const operations = document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
    return { operations, fault: null };
  } catch (error) {
    return { operations: [], fault: error instanceof Error ? error.message : String(error) };
  }
}

/** The names to choose from; unnamed operations cannot be chosen. */
export function namesOf({ operations }: Reading): readonly string[] {
  return operations.flatMap((one) => (one.name ? [one.name.value] : []));
}

/** The operation that would run: the chosen one, or the one around the cursor, or the first. */
export function chooseOperation(
  reading: Reading,
  chosen: string | null,
  cursor: number | null = null,
): OperationDefinitionNode | null {
  const { operations } = reading;
  const named = operations.find((one) => chosen !== null && one.name?.value === chosen);
  const around = operations.find(
    ({ loc }) => cursor !== null && loc && loc.start <= cursor && cursor <= loc.end,
  );
  return named ?? around ?? operations[0] ?? null;
}

/** The text as GraphQL prints it; comments would be lost, so a text with comments stays as it is. */
export function prettify(query: string): string {
  return hasComment(query) ? indent(query) : print(parse(query));
}

function hasComment(query: string): boolean {
  return /#/.test(query.replace(/"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"/g, ""));
}

/** Lines moved to the level of the brackets around them, and nothing else. */
function indent(query: string): string {
  let level = 0;
  let isBlock = false;
  const lines = query.split("\n").map((line) => {
    const wasBlock = isBlock;
    if ((line.match(/"""/g)?.length ?? 0) % 2 === 1) isBlock = !isBlock;
    if (wasBlock) return line;
    const bare = line.replace(/"(?:\\.|[^"\\])*"/g, "").replace(/#.*$/, "");
    const opened = bare.match(/[{([]/g)?.length ?? 0;
    const closed = bare.match(/[})\]]/g)?.length ?? 0;
    const leading = /^\s*([})\]]*)/.exec(bare)?.[1]?.length ?? 0;
    const at = Math.max(0, level - leading);
    level = Math.max(0, level + opened - closed);
    return line.trim() ? "  ".repeat(at) + line.trim() : "";
  });
  return lines.join("\n");
}
