/** A link that holds a query: in the fragment, which browsers never send to a server. */

export interface Shared {
  readonly query: string;
  readonly variables: string;
}

const mostCharacters = 100_000; // a longer link is an accident

export function writeShared({ query, variables }: Shared): string {
  const parts = new URLSearchParams({ query });
  if (variables.trim()) parts.set("variables", variables);
  return parts.toString();
}

/** The query of a link; null where it holds none. */
export function readShared(text: string): Shared | null {
  if (text.length > mostCharacters) return null;
  const parts = new URLSearchParams(text);
  const query = parts.get("query");
  return query === null ? null : { query, variables: parts.get("variables") ?? "" };
}
