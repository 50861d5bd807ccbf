/** A link that holds a query: in the fragment, which browsers never send to a server. */

export interface Shared {
  readonly query: string;
  readonly variables: string;
  /** Of several; null: the first. */
  readonly operation: string | null;
  readonly view: ResultView;
}

/** How the result is shown: as one of the views of the answer, or its plan. */
export type ResultView = "tree" | "table" | "chart" | "text" | "plan";

const views: readonly string[] = ["tree", "table", "chart", "text", "plan"] satisfies readonly ResultView[];

const mostCharacters = 100_000; // a longer link is an accident

export function writeShared({ query, variables, operation, view }: Shared): string {
  const parts = new URLSearchParams({ query });
  if (variables.trim()) parts.set("variables", variables);
  if (operation !== null) parts.set("operation", operation);
  if (view !== "tree") parts.set("view", view);
  return parts.toString();
}

/** The same for the address of the page; empty where there is nothing to find again, or too much of it. */
export function writePlace(shared: Shared): string {
  const text = shared.query.trim() === "" ? "" : writeShared(shared);
  return text.length > mostCharacters ? "" : text;
}

/** The query of a link; null where it holds none. */
export function readShared(text: string): Shared | null {
  if (text.length > mostCharacters) return null;
  const parts = new URLSearchParams(text);
  const query = parts.get("query");
  const view = parts.get("view") ?? "";
  return query === null ? null : { query, variables: parts.get("variables") ?? "", operation: parts.get("operation"), view: views.includes(view) ? (view as ResultView) : "tree" };
}
