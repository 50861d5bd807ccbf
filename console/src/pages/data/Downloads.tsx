/** Download the matching documents as a file. */

import { useEffect, useRef, useState } from "preact/hooks";
import { joinCsv } from "../../api/csv.js";
import { type Query, type Segments, walkCsv, walkPages } from "../../api/data.js";
import { asApiError } from "../../api/error.js";
import { writeTyped } from "../../api/typed.js";
import { Button, download } from "../../parts/basic.js";

interface DownloadsProps {
  segments: Segments;
  query: Query;
}

const mostDocuments = 10_000;
const mostCharacters = 64 << 20;

/** A file, and what it lacks. */
interface File {
  readonly text: string;
  readonly said: string;
}

export function Downloads({ segments, query: { filter, sort } }: DownloadsProps) {
  const [said, setSaid] = useState("");
  const running = useRef<AbortController | null>(null);
  const stop = () => running.current?.abort();
  useEffect(() => (setSaid(""), stop), [filter, sort]);
  const run = (kind: "csv" | "json") => {
    stop();
    const controller = new AbortController();
    running.current = controller;
    setSaid("Reading …");
    const read = kind === "csv" ? readRows : readJson;
    read(segments, { filter, sort }, controller.signal, (text) => setSaid(`${text} read …`)).then(
      ({ text, said }) => {
        download(`${segments[segments.length - 1]?.replace(/[^\w-]+/g, "_") || "documents"}.${kind}`, text, kind === "csv" ? "text/csv" : "application/json");
        setSaid(said);
      },
      (error: unknown) => controller.signal.aborted || setSaid(`Not downloaded: ${asApiError(error).message}`),
    );
  };
  return (
    <>
      <Button kind="quiet" aria-label="Download JSON" onClick={() => run("json")}>↓ JSON</Button>
      <Button kind="quiet" aria-label="Download CSV" onClick={() => run("csv")}>↓ CSV</Button>
      <span role="status">{said}</span>
    </>
  );
}

const mostPages = 100; // of CSV
const more = "there are more";

async function readRows(segments: Segments, query: Query, signal: AbortSignal, onProgress: (text: string) => void): Promise<File> {
  const pages: string[] = [];
  let length = 0;
  for await (const { text, hasNext } of walkCsv(segments, query, signal)) {
    pages.push(text);
    length += text.length;
    onProgress(pages.length === 1 ? "1 page" : `${pages.length} pages`);
    if (hasNext && (pages.length >= mostPages || length >= mostCharacters)) {
      return { text: joinCsv(pages), said: `Downloaded: the first ${pages.length} pages, ${more}` };
    }
  }
  return { text: joinCsv(pages), said: "Downloaded" };
}

async function readJson(segments: Segments, query: Query, signal: AbortSignal, onProgress: (text: string) => void): Promise<File> {
  const parts: string[] = [];
  let length = 0;
  for await (const { documents, next } of walkPages(segments, query, signal)) {
    const texts = documents.map((one) => writeTyped(one, 0));
    parts.push(...texts);
    length += texts.reduce((all, one) => all + one.length, 0);
    onProgress(parts.length.toLocaleString("en"));
    if (next !== null && (parts.length >= mostDocuments || length >= mostCharacters)) {
      return { text: writeList(parts), said: `Downloaded: the first ${parts.length.toLocaleString("en")}, ${more}` };
    }
  }
  return { text: writeList(parts), said: "Downloaded" };
}

function writeList(parts: readonly string[]): string {
  return `[${parts.join(",\n")}]\n`;
}
