/** Where a schema writes a field. */

import { parse } from "graphql";

/** The position of `Post.title`; null: the text is not a schema, or has no such field. */
export function locateField(schema: string, field: string): { readonly line: number; readonly column: number } | null {
  const [typeName, fieldName] = field.split(".");
  try {
    for (const node of parse(schema).definitions) {
      if (!("fields" in node) || node.name.value !== typeName) continue;
      const found = node.fields?.find((one) => one.name.value === fieldName)?.name.loc?.startToken;
      if (found !== undefined) return { line: found.line, column: found.column };
    }
  } catch {
    // The check reports what is wrong with it.
  }
  return null;
}
