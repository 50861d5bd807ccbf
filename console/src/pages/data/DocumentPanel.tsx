/** One document: as a tree, and as JSON that keeps its types. */

import { useEffect, useState } from "preact/hooks";
import { type Segments, type StoredDocument, readDocument } from "../../api/data.js";
import { type DocumentId, nameOfId } from "../../api/ids.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { Button, CopyButton, Empty, Loading, download } from "../../parts/basic.js";
import { JsonTree } from "../../parts/JsonTree.js";
import { Tabs } from "../../parts/Tabs.js";
import { Refusal } from "./Refusal.js";
import { writeTyped } from "../../api/typed.js";
import { Editor } from "../../parts/Editor.js";

interface DocumentPanelProps {
  owner: string | null;
  segments: Segments;
  id: DocumentId;
  onChanged: () => void;
  onClose: () => void;
}

type Found = { readonly document: StoredDocument | null } | { readonly error: unknown } | null;

export function DocumentPanel({ segments, id, onClose }: DocumentPanelProps) {
  const { login } = useStore(sessionState);
  const [found, setFound] = useState<Found>(null);
  const [view, setView] = useState<"tree" | "json">("tree");
  useEffect(() => {
    const controller = new AbortController();
    readDocument(segments, id, controller.signal).then(
      (document) => setFound({ document }),
      (error: unknown) => controller.signal.aborted || setFound({ error }),
    );
    return () => controller.abort();
  }, [login?.name]);
  return (
    <section class="data-document" aria-label="Document">
      <div class="data-head">
        <h2>{nameOfId(id)}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {found === null && <Loading what="Reading the document" />}
      {found !== null && "error" in found && <Refusal error={found.error} title="The document could not be read" />}
      {found !== null && "document" in found && found.document === null && <Empty title="There is no such document" />}
      {found !== null && "document" in found && found.document !== null && (
        <Tabs label="Views of the document" tabs={[{ key: "tree", label: "Tree" }, { key: "json", label: "JSON" }]} selected={view} onSelect={setView}>
          {view === "tree" ? <JsonTree value={found.document.fields} label="Document" openLevels={3} /> : <Editor label="JSON" language="json" value={writeTyped(found.document.fields)} isReadOnly />}
        </Tabs>
      )}
    </section>
  );
}
void CopyButton; void download;
