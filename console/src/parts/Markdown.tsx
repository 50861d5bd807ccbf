/** Descriptions that people write in Markdown: paragraphs, lists, code, emphasis and links. Everything else is text. */

import type { ComponentChildren } from "preact";
import { type Block, type Span, parseMarkdown, parseSpans } from "./parseMarkdown.js";

export function Markdown({ text }: { text: string }) {
  return <>{parseMarkdown(text).map((block, index) => <BlockView key={index} block={block} />)}</>;
}

/** One line, without paragraphs and lists. */
export function MarkdownLine({ text }: { text: string }) {
  return <Spans spans={parseSpans(text.replace(/\s+/g, " "))} />;
}

function BlockView({ block }: { block: Block }) {
  if (block.kind === "code") return <pre class="markdown-code">{block.text}</pre>;
  if (block.kind === "text") return <p><Spans spans={block.spans} /></p>;
  return <ul class="markdown-list">{block.items.map((spans, index) => <li key={index}><Spans spans={spans} /></li>)}</ul>;
}

function Spans({ spans }: { spans: readonly Span[] }): ComponentChildren {
  return spans.map(({ kind, text, href }, index) => {
    if (kind === "code") return <code key={index}>{text}</code>;
    if (kind === "strong") return <strong key={index}>{text}</strong>;
    if (kind === "em") return <em key={index}>{text}</em>;
    return kind === "link" ? <a key={index} href={href} target="_blank" rel="noopener noreferrer">{text}</a> : text;
  });
}
