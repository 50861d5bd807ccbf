import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMarkdown, parseSpans } from "./parseMarkdown.js";

test("spans are code, emphasis and links, and everything else is text", () => {
  assert.deepEqual(parseSpans("a `b` **c** *d* [e](https://f.g)"), [
    { kind: "text", text: "a " },
    { kind: "code", text: "b" },
    { kind: "text", text: " " },
    { kind: "strong", text: "c" },
    { kind: "text", text: " " },
    { kind: "em", text: "d" },
    { kind: "text", text: " " },
    { kind: "link", text: "e", href: "https://f.g" },
  ]);
});

test("a link that is no web address stays text, and so does markup", () => {
  for (const text of ["[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "snake_case_name", "2 * 3 * 4"]) {
    assert.deepEqual(parseSpans(text), [{ kind: "text", text }]);
  }
});

test("paragraphs, lists and code are blocks", () => {
  const blocks = parseMarkdown("# Title\nfirst\nline\n\n- one\n  more\n- two\n\n```js\nlet a;\n```\nend");
  assert.deepEqual(blocks.map((one) => one.kind), ["text", "list", "code", "text"]);
  assert.deepEqual(blocks[0], { kind: "text", spans: [{ kind: "text", text: "Title first line" }] });
  assert.deepEqual(blocks[1], { kind: "list", items: [[{ kind: "text", text: "one more" }], [{ kind: "text", text: "two" }]] });
  assert.deepEqual(blocks[2], { kind: "code", text: "let a;" });
});
