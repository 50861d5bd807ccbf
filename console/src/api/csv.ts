/** Pages of CSV as one table: each page has the columns of its own documents. */

const cell = /("(?:[^"]|"")*"|[^,\r\n]*)(,|\r?\n|$)/y;

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
  cell.lastIndex = 0;
  while (cell.lastIndex < text.length) {
    const [, value = "", end = ""] = cell.exec(text) ?? [];
    line.push(value);
    if (end === ",") continue;
    lines.push(line);
    line = [];
  }
  return lines;
}
