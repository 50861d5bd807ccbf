/** The notation of the shell of MongoDB, coloured only: the server finds what is wrong in it. */

import { StreamLanguage } from "@codemirror/language";

const tokens: readonly (readonly [RegExp, string | null])[] = [
  [/^\s+/, null],
  [/^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w$.]+)(?=\s*:)/, "propertyName"],
  [/^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\/(?:[^/\\]|\\.)+\/[a-z]*)/, "string"],
  [/^[-+]?\d[\w.]*/, "number"],
  [/^(?:true|false|null|new)\b/, "keyword"],
  [/^[A-Za-z]\w*(?=\s*\()/, "typeName"],
  [/^[@\w$.]+/, "variableName"],
  [/^./, "punctuation"],
];

export const shell = StreamLanguage.define<null>({
  token: (stream) => tokens.find(([pattern]) => stream.match(pattern))?.[1] ?? null,
  languageData: { closeBrackets: { brackets: ["(", "[", "{", "'", '"'] } },
});
