/**
 * Documents with their types: the JSON of the mode `strict`, read and written without a change of any value.
 *
 * `JSON.parse` would round long numbers, turn 1.0 into 1, and put names such as "1" before all others.
 */

import { Scalar } from "../parts/json.js";
import { type Fields, type Value, readScalar } from "./scalars.js";

export type { Fields, Value } from "./scalars.js";

const mostLevels = 200; // the database has fewer
const numeral = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const space = /[ \t\r\n]*/y;
const plainText = /[^"\\\u0000-\u001f]*/y;

/** A text that is not JSON, with the position of the error. */
export class TypedSyntaxError extends SyntaxError {
  constructor(
    message: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(message);
  }
}

/** Parse a text to its value; `TypedSyntaxError`: it is not valid. */
export function parseTyped(text: string): Value {
  return new Reader(text).readAll();
}

/** The fields of a text that has to be a document. */
export function parseFields(text: string): Fields {
  const value = parseTyped(text);
  if (isFields(value)) return value;
  throw new TypedSyntaxError("A document is an object: { … }", 1, 1);
}

export function isFields(value: Value | undefined): value is Fields {
  return value instanceof Map;
}

/** The value as JSON, a line for each value inside it; `gap` 0 writes it in one line. */
export function writeTyped(value: Value, gap = 2, level = 0): string {
  if (value instanceof Scalar) return value.json;
  if (isFields(value)) {
    return bracket("{}", [...value].map(([name, one]) => `${JSON.stringify(name)}: ${writeTyped(one, gap, level + 1)}`), gap, level);
  }
  if (Array.isArray(value)) return bracket("[]", value.map((one: Value) => writeTyped(one, gap, level + 1)), gap, level);
  return JSON.stringify(value);
}

function bracket([open, close]: string, parts: readonly string[], gap: number, level: number): string {
  if (parts.length === 0) return `${open}${close}`;
  if (gap === 0) return `${open}${parts.join(", ")}${close}`;
  const inner = `\n${" ".repeat(gap * (level + 1))}`;
  return `${open}${inner}${parts.join(`,${inner}`)}\n${" ".repeat(gap * level)}${close}`;
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  readAll(): Value {
    const value = this.readValue(0);
    this.skipSpace();
    if (this.at < this.text.length) this.fail(`Unexpected ${this.sign()} after the end`);
    return value;
  }

  private readValue(level: number): Value {
    if (level > mostLevels) this.fail("This is nested too deeply");
    this.skipSpace();
    switch (this.text[this.at]) {
      case "{":
        return this.readObject(level);
      case "[":
        return this.readList(level);
      case '"':
        return this.readText();
    }
    for (const [word, value] of [["true", true], ["false", false], ["null", null]] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.readNumber();
  }

  private readObject(level: number): Value {
    const begin = this.at;
    const fields = new Map<string, Value>();
    this.readParts("}", () => {
      if (this.text[this.at] !== '"') this.fail(`Expected a name in quotes, not ${this.sign()}`);
      const before = this.at;
      const name = this.readText();
      if (fields.has(name)) this.fail(`The name ${JSON.stringify(name)} appears twice in one object`, before);
      this.skipSpace();
      if (this.text[this.at] !== ":") this.fail(`Expected ":" after the name, not ${this.sign()}`);
      this.at += 1;
      fields.set(name, this.readValue(level + 1));
    });
    return readScalar(fields, () => this.text.slice(begin, this.at)) ?? fields;
  }

  private readList(level: number): readonly Value[] {
    const values: Value[] = [];
    this.readParts("]", () => values.push(this.readValue(level + 1)));
    return values;
  }

  private readParts(close: string, readPart: () => void): void {
    this.at += 1;
    this.skipSpace();
    if (this.text[this.at] === close) {
      this.at += 1;
      return;
    }
    for (;;) {
      this.skipSpace();
      readPart();
      this.skipSpace();
      const sign = this.text[this.at];
      if (sign !== "," && sign !== close) this.fail(`Expected "," or "${close}", not ${this.sign()}`);
      this.at += 1;
      if (sign === close) return;
    }
  }

  private readText(): string {
    const begin = this.at;
    this.at += 1;
    this.skip(plainText);
    let isPlain = true;
    while (this.text[this.at] === "\\") {
      isPlain = false;
      this.at += 2;
      this.skip(plainText);
    }
    if (this.text[this.at] !== '"') this.fail("This text has no end on its line", begin);
    this.at += 1;
    const inner = this.text.slice(begin, this.at);
    if (isPlain) return inner.slice(1, -1);
    try {
      return JSON.parse(inner) as string;
    } catch {
      return this.fail("This text has an unknown character after a backslash", begin);
    }
  }

  private readNumber(): Scalar {
    numeral.lastIndex = this.at;
    const found = numeral.exec(this.text);
    if (found === null) return this.fail(`Expected a value, not ${this.sign()}`);
    this.at = numeral.lastIndex;
    const isDouble = found[1] !== undefined || found[2] !== undefined;
    const isSmall = Math.abs(Number(found[0])) < 2 ** 31;
    return new Scalar(isDouble ? "Double" : isSmall ? "Int32" : "Int64", found[0], found[0]);
  }

  private skipSpace(): void {
    this.skip(space);
  }

  private skip(pattern: RegExp): void {
    pattern.lastIndex = this.at;
    pattern.test(this.text);
    this.at = pattern.lastIndex;
  }

  private sign(): string {
    return this.at < this.text.length ? JSON.stringify(String.fromCodePoint(this.text.codePointAt(this.at)!)) : "the end";
  }

  private fail(message: string, at = this.at): never {
    const before = this.text.slice(0, at).split("\n");
    throw new TypedSyntaxError(message, before.length, before[before.length - 1]!.length + 1);
  }
}
