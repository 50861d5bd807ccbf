/** Write a new document, checked while typing, and store it; an existing document is never overwritten. */

import { useState } from "preact/hooks";
import { insertDocument } from "../../api/changes.js";
import type { Segments } from "../../api/data.js";
import { dropKept, keptKey, readKept } from "../../api/kept.js";
import { useKeeping } from "../../api/keeping.js";
import { Button } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { go } from "../../shell/router.js";
import { type Spot, addressOf } from "./places.js";
import { Refusal } from "./Refusal.js";
import { pathText } from "./visits.js";
import { findMistake } from "./work.js";

interface NewDocumentProps {
  owner: string | null;
  segments: Segments;
  spot: Spot;
  onStored: () => void;
  onClose: () => void;
}

const template = "{\n  \n}";

export function NewDocument({ owner, segments, spot, onStored, onClose }: NewDocumentProps) {
  const key = keptKey(owner, "new-document", pathText(segments));
  const [text, setText] = useState(() => {
    const kept = readKept(key);
    return typeof kept === "string" ? kept : template;
  });
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const isKept = useKeeping(key, text === template ? null : text, (other) => setText(typeof other === "string" ? other : template));
  const mistake = findMistake(text, null);
  const insert = async () => {
    if (mistake !== null || isRunning) return;
    setRunning(true);
    try {
      const stored = await insertDocument(segments, text);
      setText(template);
      dropKept(key);
      onStored();
      go(addressOf(segments, { ...spot, isNew: false, id: stored?.get("_id") }), { state: history.state });
    } catch (thrown) {
      setRunning(false);
      setError(thrown);
    }
  };
  const run = () => {
    void insert();
    return true;
  };
  return (
    <section class="data-document" aria-label="New document">
      <div class="data-head">
        <h2>New document</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      <p class="soft">Without <code>_id</code> the server generates one. Write types that JSON does not have as <code>{'{"$date": "2026-05-01T12:00:00Z"}'}</code>, <code>{'{"$oid": "…"}'}</code>, <code>{'{"$numberLong": "5"}'}</code>, <code>{'{"$numberDecimal": "1.50"}'}</code>.</p>
      <div class="data-actions">
        <Button kind="primary" disabled={mistake !== null || isRunning} onClick={run}>Insert</Button>
        {!isKept && <span class="chip">this browser cannot store it</span>}
      </div>
      {error !== null && <Refusal error={error} title="Not inserted" said={{ 409: "A document with this _id exists, or a unique index forbids it. Nothing was overwritten.", 403: "You may not insert documents here. Your text stays." }} />}
      <div class="data-text">
        {mistake !== null && text !== template && <p class="data-wrong" role="status">Line {mistake.line}: {mistake.message}</p>}
        <div class="data-text-editor"><Editor label="New document" language="json" value={text} onChange={setText} findings={mistake === null ? [] : [mistake]} keys={[{ key: "Mod-Enter", run }]} /></div>
      </div>
    </section>
  );
}
