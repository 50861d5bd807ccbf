/** The documents of a collection, page by page, with the open one next to them. */

import { useEffect, useState } from "preact/hooks";
import { type Segments, countDocuments, dataPath } from "../../api/data.js";
import { asApiError } from "../../api/error.js";
import { useRights } from "../../api/rights.js";
import { Button, Empty, Loading } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { Downloads } from "./Downloads.js";
import { DocumentPanel } from "./DocumentPanel.js";
import { DocumentTable } from "./DocumentTable.js";
import { NewDocument } from "./NewDocument.js";
import { type Begin, type Spot, addressOf, readTrail, start, writeTrail } from "./places.js";
import { QueryForm } from "./QueryForm.js";
import { Refusal } from "./Refusal.js";
import { type List, useList } from "./useList.js";
import { writeTyped } from "../../api/typed.js";

interface DocumentsProps {
  owner: string | null;
  segments: Segments;
  spot: Spot;
}

export function Documents({ owner, segments, spot }: DocumentsProps) {
  const visit = (trail: readonly Begin[]) => go(addressOf(segments, { ...spot, begin: trail[trail.length - 1] ?? start }), { state: writeTrail(trail) });
  const list = useList(segments, spot, [readTrail(spot.begin, history.state), visit]);
  const close = () => go(addressOf(segments, { ...spot, id: undefined, isNew: false }), { state: history.state });
  const table = (
    <div class="data-list">
      <QueryForm segments={segments} spot={spot} documents={list.page?.documents ?? []} onRepeat={list.reload} />
      <Pager segments={segments} spot={spot} list={list} />
      <Found owner={owner} segments={segments} spot={spot} list={list} />
    </div>
  );
  const side = spot.isNew ? (
    <NewDocument owner={owner} segments={segments} spot={spot} onStored={list.reload} onClose={close} />
  ) : spot.id !== undefined ? (
    <DocumentPanel key={writeTyped(spot.id, 0)} owner={owner} segments={segments} id={spot.id} onChanged={list.reload} onClose={close} />
  ) : null;
  return (
    <div class={side === null ? "data-documents" : "data-documents data-documents-open"}>
      {table}
      {side}
    </div>
  );
}

/** Whether the caller may insert documents. */
function useMayInsert(segments: Segments): boolean {
  const path = dataPath(segments);
  return useRights([path]).may("POST", path);
}

function Found({ owner, segments, spot, list: { page, error, reload } }: { owner: string | null; segments: Segments; spot: Spot; list: List }) {
  const mayInsert = useMayInsert(segments);
  if (error !== null) {
    const { status } = asApiError(error);
    const isRefused = status === 401 || status === 403;
    const said = { 403: "Ask an administrator of the server for a permission.", 404: "There is no collection with this name." };
    return (
      <>
        <Refusal error={error} title={isRefused ? "You may not read these documents" : status === 404 ? "There is no such collection" : "The documents could not be read"} said={said} />
        <div><Button onClick={reload}>Try again</Button></div>
      </>
    );
  }
  if (page === null) return <Loading what="Reading documents" />;
  if (page.documents.length > 0) return <DocumentTable owner={owner} segments={segments} spot={spot} documents={page.documents} />;
  if (page.seen > 0) return <Empty title="No further documents" />;
  if (spot.filter.trim() !== "") return <Empty title="Nothing matches the filter" />;
  return (
    <Empty title="No documents yet">
      {mayInsert && <p><a href={addressOf(segments, { ...spot, id: undefined, isNew: true })}>Insert the first one</a></p>}
    </Empty>
  );
}

function Pager({ segments, spot, list }: { segments: Segments; spot: Spot; list: List }) {
  const { page, isLoading, hasPrevious, isFirst } = list;
  const mayInsert = useMayInsert(segments);
  const count = page?.documents.length ?? 0;
  const from = (page?.seen ?? 0) + 1;
  return (
    <div class="data-pager">
      <span aria-live="polite">
        {isLoading ? "Reading …" : page === null || list.error !== null ? "" : count === 0 ? "No documents" : `Documents ${from.toLocaleString("en")} to ${(from + count - 1).toLocaleString("en")}`}
      </span>
      <Button disabled={isFirst || isLoading} onClick={list.first}>First</Button>
      <Button disabled={!hasPrevious || isLoading} onClick={list.previous}>Previous</Button>
      <Button disabled={page?.next == null || isLoading} onClick={list.next}>Next</Button>
      <Counter segments={segments} filter={spot.filter} />
      {count > 0 && <Downloads segments={segments} query={spot} />}
      {mayInsert && <a class="button button-plain data-insert" href={addressOf(segments, { ...spot, id: undefined, isNew: true })}>Insert</a>}
      {page?.size != null && <span class="soft">The documents are large: {page.size} on a page.</span>}
    </div>
  );
}

/** Counting can take a while: it runs only on request. */
function Counter({ segments, filter }: { segments: Segments; filter: string }) {
  const [told, setTold] = useState("");
  const [asked, setAsked] = useState(0);
  useEffect(() => setTold(""), [filter]);
  useEffect(() => {
    if (asked === 0) return undefined;
    const controller = new AbortController();
    setTold("Counting …");
    countDocuments(segments, { filter, sort: "" }, controller.signal).then(
      (count) => setTold(`${count.toLocaleString("en")} in all`),
      (error: unknown) => controller.signal.aborted || setTold(`Not counted: ${asApiError(error).message}`),
    );
    return () => controller.abort();
  }, [asked]);
  return (
    <>
      <Button kind="quiet" onClick={() => setAsked(asked + 1)}>Count</Button>
      <span role="status">{told}</span>
    </>
  );
}
