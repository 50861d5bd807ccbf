/** What could be better about an app and its data, the worst first; indexes that help are created here, and undone. */

import { useEffect, useState } from "preact/hooks";
import { type Advice, type AdviceReport, type AdvisedIndex, fieldOf, nameIndex, readAdvice } from "../../api/advice.js";
import { createIndex, removeIndex } from "../../api/changes.js";
import { segmentsOf } from "../../api/realm.js";
import { useRights } from "../../api/rights.js";
import { Button, CopyButton, Dialog, Empty, ErrorNotice, Loading } from "../../parts/basic.js";
import { Refusal } from "../data/Refusal.js";

type Found = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly report: AdviceReport };

export function AdviceView({ definition, onField }: { definition: string; onField: (field: string) => void }) {
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setFound({ kind: "loading" });
    readAdvice(definition, controller.signal).then(
      (report) => setFound({ kind: "ready", report }),
      (error: unknown) => controller.signal.aborted || setFound({ kind: "failed", error }),
    );
    return () => controller.abort();
  }, [definition, attempt]);
  const again = <div><Button onClick={() => setAttempt(attempt + 1)}>Check again</Button></div>;
  if (found.kind === "loading") return <Loading what="Checking the app and a sample of its data" />;
  if (found.kind === "failed") return <div class="advice"><ErrorNotice error={found.error} title="There is no advice" />{again}</div>;
  const { findings, indexes } = found.report;
  if (findings.length === 0) return <div class="advice"><Empty title="Nothing to improve"><p>Every query has its index, and the data are as declared.</p></Empty>{again}</div>;
  return (
    <div class="advice">
      {again}
      {indexes.length > 0 && (
        <section aria-label="Indexes that help">
          <h2>Indexes that help</h2>
          <ul class="advice-list">{indexes.map((index) => <IndexLine key={index.createIndex} index={index} />)}</ul>
        </section>
      )}
      <section aria-label="Advice">
        <h2>Findings</h2>
        <ul class="advice-list">{findings.map((one, number) => <Line key={number} advice={one} onField={onField} />)}</ul>
      </section>
    </div>
  );
}

function Line({ advice: { severity, what, hint, where, collection }, onField }: { advice: Advice; onField: (field: string) => void }) {
  const field = fieldOf(where);
  return (
    <li class="advice-line">
      <p>
        <span class={`finding-kind finding-${severity === "note" ? "warning" : severity}`}>{severity}</span>{" "}
        <strong>{field ?? where ?? collection}</strong> {what}
      </p>
      {hint !== null && <p class="soft">{hint}</p>}
      {field !== null && <div><Button kind="quiet" onClick={() => onField(field)}>Show in the schema</Button></div>}
    </li>
  );
}

type State = { readonly kind: "none" | "asking" | "creating" | "created" | "dropping" } | { readonly kind: "failed"; readonly error: unknown };

function IndexLine({ index }: { index: AdvisedIndex }) {
  const [state, setState] = useState<State>({ kind: "none" });
  const name = nameIndex(index.keys);
  const path = index.path === null ? "" : `${index.path}/_indexes/${encodeURIComponent(name)}`;
  const rights = useRights([path]);
  const keys = JSON.stringify(index.keys);
  const run = (kind: "creating" | "dropping", work: () => Promise<void>, after: State) => {
    setState({ kind });
    work().then(() => setState(after), (error: unknown) => setState({ kind: "failed", error }));
  };
  const create = () => run("creating", () => createIndex(segmentsOf(index.path ?? ""), name, keys, ""), { kind: "created" });
  const undo = () => run("dropping", () => removeIndex(segmentsOf(index.path ?? ""), name), { kind: "none" });
  return (
    <li class="advice-line">
      <p><strong>{index.collection}</strong> <code>{keys}</code></p>
      <p class="soft">Serves {index.serves.join(", ")}</p>
      <div class="advice-actions">
        {(state.kind === "none" || state.kind === "failed") && rights.may("PUT", path) && <Button onClick={() => setState({ kind: "asking" })}>Create this index</Button>}
        {state.kind === "creating" && <span role="status">Creating the index …</span>}
        {state.kind === "dropping" && <span role="status">Dropping the index …</span>}
        {state.kind === "created" && <span role="status">Created.</span>}
        {state.kind === "created" && rights.may("DELETE", path) && <Button onClick={undo}>Undo</Button>}
        <CopyButton text={index.createIndex} label="Copy for mongosh" />
      </div>
      {state.kind === "failed" && <Refusal error={state.error} title="The index was not changed" />}
      {state.kind === "asking" && (
        <Dialog title={`Create an index on ${index.collection}`} onClose={() => setState({ kind: "none" })}>
          <p>The database builds <code>{keys}</code>. Reads and writes continue; on a large collection it takes a while and uses memory and disk space.</p>
          <div class="dialog-actions">
            <Button onClick={() => setState({ kind: "none" })}>Cancel</Button>
            <Button kind="primary" onClick={create}>Create</Button>
          </div>
        </Dialog>
      )}
    </li>
  );
}
