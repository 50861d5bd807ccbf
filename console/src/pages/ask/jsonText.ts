/** JSON with the positions of its values, and the position of a cursor in it. */

export interface JsonNode {
  readonly kind: "object" | "list" | "text" | "number" | "boolean" | "null";
  readonly from: number;
  readonly to: number;
  /** The text of a scalar, as a value. */
  readonly value?: unknown;
  readonly members?: readonly { readonly name: string; readonly from: number; readonly to: number; readonly node: JsonNode }[];
  readonly elements?: readonly JsonNode[];
}

const token = /\s*(?:("(?:\\.|[^"\\\n])*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],:]))/y;

interface Token {
  readonly text: string;
  readonly kind: "text" | "number" | "word" | "sign";
  readonly from: number;
  readonly to: number;
}

/** The value that a text holds; null where it is not quite JSON. */
export function parseWithPlaces(text: string): JsonNode | null {
  const tokens = [...tokensOf(text)];
  const last = tokens.at(-1);
  if (last === undefined || text.slice(last.to).trim() !== "") return null;
  const reader = new Reader(tokens);
  try {
    const node = reader.read(0);
    return reader.isDone ? node : null;
  } catch {
    return null; // `Broken`: the editor's own check shows where
  }
}

function* tokensOf(text: string): Generator<Token> {
  token.lastIndex = 0;
  for (;;) {
    const start = token.lastIndex;
    const found = token.exec(text);
    if (found === null) {
      token.lastIndex = start;
      return;
    }
    const [, quoted, number, word, sign] = found;
    const own = quoted ?? number ?? word ?? sign ?? "";
    const to = token.lastIndex;
    const kind = quoted !== undefined ? "text" : number !== undefined ? "number" : word !== undefined ? "word" : "sign";
    yield { text: own, kind, from: to - own.length, to };
    token.lastIndex = to;
  }
}

class Broken extends Error {}

class Reader {
  private at = 0;

  constructor(private readonly tokens: readonly Token[]) {}

  get isDone(): boolean {
    return this.at === this.tokens.length;
  }

  read(depth: number): JsonNode {
    if (depth > 100) throw new Broken();
    const first = this.next();
    if (first.text === "{" && first.kind === "sign") return this.readObject(first, depth);
    if (first.text === "[" && first.kind === "sign") return this.readList(first, depth);
    if (first.kind === "sign") throw new Broken();
    const value: unknown = JSON.parse(first.text);
    const kind = first.kind === "text" ? "text" : first.kind === "number" ? "number" : value === null ? "null" : "boolean";
    return { kind, from: first.from, to: first.to, value };
  }

  private readObject(first: Token, depth: number): JsonNode {
    const members: { name: string; from: number; to: number; node: JsonNode }[] = [];
    if (this.takes("}")) return { kind: "object", from: first.from, to: this.before, members };
    do {
      const { text, kind, from, to } = this.next();
      if (kind !== "text" || !this.takes(":")) throw new Broken();
      members.push({ name: JSON.parse(text) as string, from, to, node: this.read(depth + 1) });
    } while (this.takes(","));
    if (!this.takes("}")) throw new Broken();
    return { kind: "object", from: first.from, to: this.before, members };
  }

  private readList(first: Token, depth: number): JsonNode {
    const elements: JsonNode[] = [];
    if (this.takes("]")) return { kind: "list", from: first.from, to: this.before, elements };
    do elements.push(this.read(depth + 1));
    while (this.takes(","));
    if (!this.takes("]")) throw new Broken();
    return { kind: "list", from: first.from, to: this.before, elements };
  }

  private next(): Token {
    const found = this.tokens[this.at];
    if (found === undefined) throw new Broken();
    this.at += 1;
    return found;
  }

  private takes(sign: string): boolean {
    const found = this.tokens[this.at];
    if (found === undefined || found.kind !== "sign" || found.text !== sign) return false;
    this.at += 1;
    return true;
  }

  private get before(): number {
    return this.tokens[this.at - 1]!.to;
  }
}

/** The position of a cursor: in a name or a value, and below which names. */
export interface Spot {
  /** Names on the path; null is an element of a list. */
  readonly path: readonly (string | null)[];
  readonly isName: boolean;
  /** Where what is being typed begins. */
  readonly from: number;
  /** Names that the object around the cursor has already, before it. */
  readonly siblings: readonly string[];
}

/** The position after a text that may be incomplete; null: inside of something complete. */
export function findSpot(before: string): Spot | null {
  const typed = openTextAtEnd(before) ?? /[\w.+-]*$/.exec(before)?.[0] ?? "";
  const from = before.length - typed.length;
  const levels: { isList: boolean; names: string[]; name: string | null; isName: boolean }[] = [];
  for (const { text, kind } of tokensOf(before.slice(0, from))) {
    const top = levels.at(-1);
    if (kind === "sign" && (text === "{" || text === "[")) {
      levels.push({ isList: text === "[", names: [], name: null, isName: text === "{" });
    } else if (kind === "sign" && (text === "}" || text === "]")) levels.pop();
    else if (top === undefined) return null;
    else if (text === "," && kind === "sign") top.isName = !top.isList;
    else if (text === ":" && kind === "sign") top.isName = false;
    else if (kind === "text" && top.isName) {
      top.name = JSON.parse(text) as string;
      top.names.push(top.name);
    }
  }
  const last = levels.at(-1);
  if (last === undefined) return null;
  const above = levels.slice(0, -1).map(({ isList, name }) => (isList ? null : name));
  const own = last.isName ? [] : [last.isList ? null : last.name];
  return { path: [...above, ...own], isName: last.isName, from, siblings: last.names };
}

/** The text that begins before the end and is not closed; null where none is open. */
function openTextAtEnd(before: string): string | null {
  const rest = before.replace(/"(?:\\.|[^"\\\n])*"/g, (found) => " ".repeat(found.length));
  const start = rest.lastIndexOf('"');
  return start === -1 || rest.slice(start).includes("\n") ? null : before.slice(start);
}
