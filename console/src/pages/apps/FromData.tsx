/** A new app from collections: the findings, before anything is stored. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Inferred, inferApp } from "../../api/tools.js";
import { Button, Field, Loading } from "../../parts/basic.js";
import { Refusal } from "../data/Refusal.js";

type Found = { readonly kind: "none" | "asking" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly inferred: Inferred };

export function FromData({ onFound }: { onFound: (inferred: Inferred | null) => void }) {
  const [db, setDb] = useState("");
  const [names, setNames] = useState("");
  const [found, setFound] = useState<Found>({ kind: "none" });
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const look = () => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setFound({ kind: "asking" });
    onFound(null);
    const collections = names.split(",").map((name) => name.trim()).filter(Boolean);
    inferApp(db.trim(), collections, controller.signal).then(
      (inferred) => (setFound({ kind: "ready", inferred }), onFound(inferred)),
      (error: unknown) => controller.signal.aborted || setFound({ kind: "failed", error }),
    );
  };
  return (
    <>
      <Field label="Database" value={db} onInput={setDb} placeholder="the database of the apps" autocomplete="off" />
      <Field label="Collections" value={names} onInput={setNames} placeholder="all of them" hint="names with commas between them" autocomplete="off" />
      <div><Button disabled={found.kind === "asking"} onClick={look}>Read a sample</Button></div>
      {found.kind === "asking" && <Loading what="Reading a sample of the documents" />}
      {found.kind === "failed" && <Refusal error={found.error} title="Nothing was found" />}
      {found.kind === "ready" && <Preview inferred={found.inferred} />}
    </>
  );
}

function Preview({ inferred: { schema, notes } }: { inferred: Inferred }) {
  return (
    <div class="infer-preview">
      <h3>Types</h3>
      <pre tabIndex={0} aria-label="Schema that was found">{schema}</pre>
      {notes.length > 0 && (
        <>
          <h3>Relations, and what was left out</h3>
          <ul aria-label="Notes">{notes.map((note) => <li key={note}>{note}</li>)}</ul>
        </>
      )}
    </div>
  );
}
