/** The little of Markdown that descriptions need, as values: nothing of it is ever markup. */

export interface Span {
  readonly kind: "text" | "code" | "strong" | "em" | "link";
  readonly text: string;
  /** Of links; http and https only. */
  readonly href?: string;
}

export type Block =
  | { readonly kind: "text"; readonly spans: readonly Span[] }
  | { readonly kind: "list"; readonly items: readonly (readonly Span[])[] }
  | { readonly kind: "code"; readonly text: string };

const span = /`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])[*_]([^*_\s][^*_]*)[*_](?!\w)|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;
const item = /^\s*(?:[-*]|\d+\.)\s+/;

export function parseMarkdown(text: string): readonly Block[] {
  const parts = text.replace(/\r\n?/g, "\n").split(/^```.*$/m);
  return parts.flatMap((part, index) => (index % 2 === 1 ? [{ kind: "code" as const, text: part.replace(/^\n|\n$/g, "") }] : parseParagraphs(part)));
}

function parseParagraphs(text: string): readonly Block[] {
  return text.split(/\n\s*\n/).flatMap((paragraph) => splitLists(paragraph.split("\n").filter((line) => line.trim() !== "")));
}

/** Lines that begin with a dash are a list, the lines before and behind it are text. */
function splitLists(lines: readonly string[]): readonly Block[] {
  const blocks: { isList: boolean; lines: string[] }[] = [];
  for (const line of lines) {
    const last = blocks[blocks.length - 1];
    const isItem = item.test(line);
    if (last === undefined || (isItem && !last.isList)) blocks.push({ isList: isItem, lines: [line] });
    else if (last.isList && !isItem) last.lines.push(`${last.lines.pop() ?? ""} ${line.trim()}`);
    else last.lines.push(line);
  }
  return blocks.map((block) =>
    block.isList
      ? { kind: "list" as const, items: block.lines.map((line) => parseSpans(line.replace(item, ""))) }
      : { kind: "text" as const, spans: parseSpans(block.lines.map((line) => line.replace(/^#{1,6}\s+/, "").trim()).join(" ")) },
  );
}

export function parseSpans(text: string): readonly Span[] {
  const spans: Span[] = [];
  let end = 0;
  for (const found of text.matchAll(span)) {
    if (found.index > end) spans.push({ kind: "text", text: text.slice(end, found.index) });
    const [whole, code, strong, em, label, href] = found;
    if (code !== undefined) spans.push({ kind: "code", text: code });
    else if (strong !== undefined) spans.push({ kind: "strong", text: strong });
    else if (em !== undefined) spans.push({ kind: "em", text: em });
    else spans.push({ kind: "link", text: label ?? "", href: href ?? "" });
    end = found.index + whole.length;
  }
  if (end < text.length) spans.push({ kind: "text", text: text.slice(end) });
  return spans;
}
