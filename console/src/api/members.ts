/**
 * Splits JSON without parsing it: the members of an object, the elements of a list, each as it was written.
 *
 * Values that are only passed on do not change; `JSON.parse` would round long numbers, and turn 1.0 into 1.
 */

export type Members = ReadonlyMap<string, string>;

/** The members of an object, by name, in their order. */
export function readMembers(text: string): Members {
  const found = new Map<string, string>();
  for (const part of split(text, "{}")) {
    const end = endOfValue(part, 0);
    const name = JSON.parse(part.slice(0, end)) as string;
    found.set(name, part.slice(part.indexOf(":", end) + 1).trim());
  }
  return found;
}

/** The elements of a list. */
export function readElements(text: string): readonly string[] {
  return split(text, "[]");
}

/** An object of members that are JSON already. */
export function writeMembers(members: Iterable<readonly [string, string]>): string {
  return `{${[...members].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

function split(text: string, [open, close]: string): readonly string[] {
  const inner = text.trim();
  if (inner[0] !== open || inner[inner.length - 1] !== close) throw new SyntaxError(`this is not ${open}…${close}`);
  const parts: string[] = [];
  let from = 1;
  let at = 1;
  while (at < inner.length - 1) {
    if (inner[at] === ",") {
      parts.push(inner.slice(from, at).trim());
      at += 1;
      from = at;
    } else at = endOfValue(inner, at);
  }
  const last = inner.slice(from, -1).trim();
  return last === "" ? parts : [...parts, last];
}

/** Where the text, object or list that begins here ends; any other character is skipped. */
function endOfValue(text: string, from: number): number {
  if (text[from] === '"') return endOfText(text, from);
  if (text[from] !== "{" && text[from] !== "[") return from + 1;
  let level = 0;
  let at = from;
  do {
    const sign = text[at];
    if (sign === "{" || sign === "[") level += 1;
    else if (sign === "}" || sign === "]") level -= 1;
    at = sign === '"' ? endOfText(text, at) : at + 1;
  } while (level > 0 && at < text.length);
  return at;
}

function endOfText(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}
