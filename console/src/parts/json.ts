/** JSON as it was written: numbers that JavaScript would round keep their digits. */

/** A number with more digits than a `number` holds. */
export class Numeral {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }
}

/** A value of a type that JSON does not have, or does not distinguish: it is shown and written with its type. */
export class Scalar {
  constructor(
    readonly type: string,
    /** What people read. */
    readonly text: string,
    /** How requests write it. */
    readonly json: string,
    /** What a path calls it, where it is an id. */
    readonly key: string = text,
  ) {}

  toString(): string {
    return this.text;
  }
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const manyDigits = /[\d.]{16}/; // fewer digits are always kept

export function parseJson(text: string): unknown {
  return manyDigits.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
}

/** Browsers that do not provide the source of a value round it. */
const keepDigits: Reviver = (_, value, context) => {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || source.length < 16) return value;
  return String(value) === source ? value : new Numeral(source);
};

/** The text with a line for each value, as far as `most` characters go; nothing of it is changed but the space. */
export function layOut(text: string, most: number): string {
  let out = "";
  let level = 0;
  let at = 0;
  const newLine = () => `\n${"  ".repeat(level)}`;
  while (at < text.length && out.length < most) {
    const sign = text[at]!;
    if (sign === '"') {
      const end = endOfText(text, at);
      out += text.slice(at, end);
      at = end;
      continue;
    }
    at += 1;
    if (sign === "{" || sign === "[") {
      const next = skipSpace(text, at);
      const isEmpty = text[next] === "}" || text[next] === "]";
      level += isEmpty ? 0 : 1;
      out += isEmpty ? sign + text[next]! : sign + newLine();
      at = isEmpty ? next + 1 : at;
    } else if (sign === "}" || sign === "]") {
      level -= 1;
      out += newLine() + sign;
    } else if (sign === ",") out += sign + newLine();
    else if (sign === ":") out += ": ";
    else if (!isSpace(sign)) out += sign;
  }
  return out.slice(0, most);
}

function endOfText(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text[at]!)) at += 1;
  return at;
}

function isSpace(sign: string): boolean {
  return sign === " " || sign === "\n" || sign === "\r" || sign === "\t";
}
