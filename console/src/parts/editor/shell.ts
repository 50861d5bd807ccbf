/** The notation of the MongoDB shell: highlighting only, the server reports errors. */

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
