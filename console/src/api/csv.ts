/** Pages of CSV as one table: each page has the columns of its own documents. */

const separator = /,|\r?\n|$/g;

/** The table of all pages; columns of later pages follow those of earlier ones. */
export function joinCsv(pages: readonly string[]): string {
  if (pages.length === 1) return pages[0]!;
  const columns: string[] = [];
  const rows: string[][] = [];
  for (const [header = [], ...lines] of pages.filter((page) => page.trim() !== "").map(readLines)) {
    const places = header.map((name) => (columns.includes(name) ? columns.indexOf(name) : columns.push(name) - 1));
    for (const line of lines) {
      const row: string[] = [];
      line.forEach((text, index) => (row[places[index] ?? index] = text));
      rows.push(row);
    }
  }
  return [columns, ...rows].map((row) => `${Array.from(columns, (_, index) => row[index] ?? "").join(",")}\r\n`).join("");
}

/** The cells of each line, as they are written. */
function readLines(text: string): readonly (readonly string[])[] {
  const lines: string[][] = [];
  let line: string[] = [];
  for (let start = 0; start < text.length; start = separator.lastIndex) {
    separator.lastIndex = skipQuoted(text, start);
    const { 0: end, index } = separator.exec(text)!;
    line.push(text.slice(start, index));
    if (end === ",") continue;
    lines.push(line);
    line = [];
    if (end === "") break;
  }
  return lines;
}

/** The position behind a quoted text, which may have megabytes: too many for a pattern. */
function skipQuoted(text: string, start: number): number {
  if (text[start] !== '"') return start;
  let end = start;
  do {
    end = text.indexOf('"', end + 1) + 1;
    if (end === 0) return text.length; // without its last quote
  } while (text[end] === '"');
  return end;
}
