/** One document: as a tree, and as JSON that keeps its types, which can be changed. */

import { useRef, useState } from "preact/hooks";
import { type Segments, type StoredDocument, dataPath } from "../../api/data.js";
import { type DocumentId, nameOfId, pathTo } from "../../api/ids.js";
import { explainMistake, replaceAt, retype, textToEdit } from "../../api/retype.js";
import { useRights } from "../../api/rights.js";
import { type Fields, type Value, parseFields, writeTyped } from "../../api/typed.js";
import { Button, CopyButton, DiscardButton, Empty, Loading, download } from "../../parts/basic.js";
import { Scalar } from "../../parts/json.js";
import { JsonTree } from "../../parts/JsonTree.js";
import type { Editing } from "../../parts/LeafEditor.js";
import { Tabs } from "../../parts/Tabs.js";
import { ConfirmDialog } from "./Confirm.js";
import { Conflict } from "./Conflict.js";
import { DocumentText } from "./DocumentText.js";
import { Refusal } from "./Refusal.js";
import { type DocumentState, type DocumentWork, isOvertaken, useDocument } from "./useDocument.js";
import { findMistake, isOwn, mostToEdit, ownFields, ownText } from "./work.js";

interface DocumentPanelProps {
  owner: string | null;
  segments: Segments;
  id: DocumentId;
  onChanged: () => void;
  onClose: () => void;
}

type Ready = Extract<DocumentState, { kind: "ready" }>;
type View = "tree" | "json";

const changedMeanwhile = "The document was changed in the meantime: check it again.";

export function DocumentPanel({ owner, segments, id, onChanged, onClose }: DocumentPanelProps) {
  const work = useDocument(owner, segments, id);
  const { state } = work;
  return (
    <section class="data-document" aria-label="Document">
      <div class="data-head">
        <h2>{nameOfId(id) || '""'}{id instanceof Scalar && <span class="json-type">{id.type}</span>}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {state.kind === "loading" && <Loading what="Reading the document" />}
      {state.kind === "failed" && (
        <>
          <Refusal error={state.error} title="The document could not be read" />
          <div><Button onClick={() => void work.load()}>Try again</Button></div>
        </>
      )}
      {state.kind === "ready" && <Opened segments={segments} id={id} work={work} state={state} onChanged={onChanged} />}
    </section>
  );
}

function Opened({ segments, id, work, state, onChanged }: { segments: Segments; id: DocumentId; work: DocumentWork; state: Ready; onChanged: () => void }) {
  const { stored, draft } = state;
  const [view, setView] = useState<View>(draft === null ? "tree" : "json");
  const [error, setError] = useState<unknown>(null);
  const [isSaving, setSaving] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const path = pathTo(dataPath(segments), id) ?? dataPath([...segments, "*"]);
  const rights = useRights([path]);
  const mayEdit = rights.may("PATCH", path); // to replace a document would remove what is hidden
  const held = useRef(new Set<string>()); // values whose editors hold what cannot be applied
  const [isHeld, setHeld] = useState(false);
  if (stored === null && draft === null) return <Empty title="There is no such document"><p>It was deleted, or never existed.</p></Empty>;
  const isBehind = draft !== null && draft.base !== (stored === null ? "" : ownText(stored));
  const mistake = draft === null ? null : findMistake(draft.text, stored?.fields ?? new Map([["_id", id]]));
  const canSave = draft !== null && mistake === null && !isBehind && !isSaving;
  const hold: Editing["hold"] = (at, isNow) => {
    if (isNow) held.current.add(JSON.stringify(at));
    else held.current.delete(JSON.stringify(at));
    setHeld(held.current.size > 0);
  };
  const save = () => {
    if (!canSave || held.current.size > 0) return true;
    setSaving(true);
    setError(null);
    const end = () => setSaving(false);
    work.save().then(onChanged, setError).then(end, end);
    return true;
  };
  const select = (next: View) => {
    if (held.current.size === 0) setView(next);
    else queueMicrotask(() => document.querySelector<HTMLElement>('.data-document .json-editor [aria-invalid="true"]')?.focus()); // its text would be lost
  };
  const forget = (act: () => void) => () => {
    setError(null);
    act();
  };
  return (
    <>
      <div class="data-actions">
        {mayEdit && view === "tree" && draft === null && <Button onClick={() => select("json")}>Edit</Button>}
        {mayEdit && (view === "json" || draft !== null) && <Button kind="primary" disabled={!canSave || isHeld} onClick={save}>Save</Button>}
        {draft !== null && <DiscardButton onDiscard={forget(work.discard)} />}
        {stored !== null && <Whole id={id} stored={stored} />}
        {stored !== null && rights.may("DELETE", path) && <Button kind="danger" onClick={() => setDeleting(true)}>Delete</Button>}
        {(draft !== null || isHeld) && <span class="chip" role="status">{isHeld ? "a value is not valid" : work.isKept ? "not saved" : "not saved, and this browser cannot store it"}</span>}
      </div>
      {isBehind && draft !== null && <Conflict stored={stored === null ? null : ownText(stored)} mine={draft.text} onKeepMine={forget(work.keepMine)} onTakeTheirs={forget(work.discard)} />}
      {error !== null && !(isBehind && isOvertaken(error)) && <Refusal error={error} title="Not saved" said={{ 412: changedMeanwhile, 403: "You may not change this document. Your text stays here." }} />}
      <Tabs label="Views of the document" tabs={[{ key: "tree", label: "Tree" }, { key: "json", label: draft === null ? "JSON" : "JSON (changed)" }]} selected={stored === null ? "json" : view} onSelect={select}>
        {view === "tree" && stored !== null ? <Tree key={stored.text} stored={stored} draft={draft?.text ?? null} mayEdit={mayEdit && mistake === null} isSaving={isSaving} onChange={work.change} onHold={hold} /> : <DocumentText stored={stored} text={draft?.text ?? (stored === null ? "" : ownText(stored))} mistake={mistake} mayEdit={mayEdit} onChange={work.change} onSave={save} />}
      </Tabs>
      {isDeleting && (
        <ConfirmDialog title="Delete this document" action="Delete" said={{ 412: changedMeanwhile, 403: "You may not delete this document." }} onConfirm={work.remove} onDone={() => { setDeleting(false); onChanged(); }} onClose={() => setDeleting(false)}>
          <p>The document <strong>{nameOfId(id)}</strong> is deleted permanently, unless it was changed in the meantime.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

interface TreeProps {
  stored: StoredDocument;
  /** The changed text; null: nothing is changed. */
  draft: string | null;
  mayEdit: boolean;
  isSaving: boolean;
  onChange: (text: string) => void;
  onHold: Editing["hold"];
}

/** The document as it would be saved; edited values keep their types. */
function Tree({ stored, draft, mayEdit, isSaving, onChange, onHold }: TreeProps) {
  const own: Fields = draft === null || !mayEdit ? ownFields(stored.fields) : ownFields(parseFields(draft));
  const id = stored.fields.get("_id");
  const shown: Fields = new Map([...(id === undefined ? [] : [["_id", id] as const]), ...own]);
  const editing: Editing = {
    begin: ([first = ""], value) => (isOwn(String(first)) ? textToEdit(value as Value) : null),
    change: (path, value, text) => {
      const typed = retype(value as Value, text);
      if (typed === null) return explainMistake(value as Value, text);
      onChange(writeTyped(replaceAt(own, path, typed)));
      return null;
    },
    hold: onHold,
  };
  const canEdit = mayEdit && !isSaving && stored.text.length <= mostToEdit;
  return <JsonTree value={shown} label="Tree" openLevels={3} {...(canEdit ? { editing } : {})} />;
}

/** All of the document, however large it is. */
function Whole({ id, stored }: { id: DocumentId; stored: StoredDocument }) {
  const name = nameOfId(id).replace(/[^\w-]+/g, "_").slice(0, 80) || "document";
  return (
    <>
      {stored.text.length <= mostToEdit && <CopyButton text={stored.text} label="Copy" />}
      <Button kind="quiet" onClick={() => download(`${name}.json`, stored.text)}>Download</Button>
    </>
  );
}
