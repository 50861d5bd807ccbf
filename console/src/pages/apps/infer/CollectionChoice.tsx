/** The database and the collections that become an app. */

import { useEffect, useState } from "preact/hooks";
import { type ListedCollection, type Sources, listSources } from "../../../api/infer.js";
import { Button, Empty, Loading } from "../../../parts/basic.js";
import { Refusal } from "../../data/Refusal.js";

interface CollectionChoiceProps {
  /** The existing definition as JSON; null for a new app. */
  definition: string | null;
  isReading: boolean;
  onRead: (db: string, collections: readonly string[]) => void;
}

type Found = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly sources: Sources };

const fewEnough = 12; // to be seen at a glance, without a filter
const kinds = { collection: "", view: "view", timeseries: "time series" };

export function CollectionChoice({ definition, isReading, onRead }: CollectionChoiceProps) {
  const [db, setDb] = useState<string | null>(null);
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    const controller = new AbortController();
    setFound({ kind: "loading" });
    listSources(db, definition, controller.signal).then(
      (sources) => {
        setLeft(new Set());
        setFound({ kind: "ready", sources });
      },
      (error: unknown) => controller.signal.aborted || setFound({ kind: "failed", error }),
    );
    return () => controller.abort();
  }, [db, attempt]);
  if (found.kind === "loading") return <Loading what="Listing collections" />;
  if (found.kind === "failed") {
    return (
      <>
        <Refusal error={found.error} title="The collections could not be listed" />
        <div><Button onClick={() => (db === null ? setAttempt(attempt + 1) : setDb(null))}>Try again</Button></div>
      </>
    );
  }
  const { sources } = found;
  const chosen = sources.collections.map(({ name }) => name).filter((name) => !left.has(name));
  return (
    <form class="infer-choice" onSubmit={(event) => { event.preventDefault(); if (chosen.length > 0) onRead(sources.db, chosen); }}>
      <label class="infer-db">
        Database
        <select class="input" value={sources.db} onChange={(event) => setDb(event.currentTarget.value)}>
          {[...new Set([sources.db, ...sources.databases])].sort().map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      {sources.collections.length === 0
        ? <Empty title="This database has no collections to read"><p>Choose another database, or insert documents first.</p></Empty>
        : <Choices collections={sources.collections} left={left} onChange={setLeft} />}
      {sources.notes.length > 0 && <details class="soft"><summary>{sources.notes.length === 1 ? "1 note" : `${sources.notes.length} notes`}</summary><ul>{sources.notes.map((note) => <li key={note}>{note}</li>)}</ul></details>}
      {sources.collections.length > 0 && (
        <div class="infer-actions">
          <Button kind="primary" type="submit" disabled={chosen.length === 0 || isReading}>
            {isReading ? "Reading …" : chosen.length === 1 ? "Read a sample of 1 collection" : `Read a sample of ${chosen.length} collections`}
          </Button>
          <span class="soft">Reads up to 1000 documents of each. Nothing is stored.</span>
        </div>
      )}
    </form>
  );
}

interface ChoicesProps {
  collections: readonly ListedCollection[];
  left: ReadonlySet<string>;
  onChange: (left: ReadonlySet<string>) => void;
}

function Choices({ collections, left, onChange }: ChoicesProps) {
  const [filter, setFilter] = useState("");
  const shown = collections.filter(({ name }) => name.toLowerCase().includes(filter.trim().toLowerCase()));
  const set = (names: readonly string[], isChosen: boolean) => {
    const next = new Set(left);
    for (const name of names) {
      if (isChosen) next.delete(name);
      else next.add(name);
    }
    onChange(next);
  };
  const names = shown.map(({ name }) => name);
  return (
    <fieldset class="infer-collections">
      <legend>Collections</legend>
      <div class="infer-actions">
        {collections.length > fewEnough && <input class="input" type="search" aria-label="Filter collections" placeholder="Filter by name" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
        <Button kind="quiet" onClick={() => set(names, true)}>Select all</Button>
        <Button kind="quiet" onClick={() => set(names, false)}>Select none</Button>
      </div>
      <ul>
        {shown.map(({ name, kind, documents }) => (
          <li key={name}>
            <label>
              <input type="checkbox" checked={!left.has(name)} onChange={(event) => set([name], event.currentTarget.checked)} />
              <span class="infer-name">{name}</span>
              <span class="soft">{[kinds[kind], documents === null ? "" : documents.toLocaleString("en")].filter(Boolean).join(" · ")}</span>
            </label>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p class="soft">No collection has that in its name.</p>}
    </fieldset>
  );
}
