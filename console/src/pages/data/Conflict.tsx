/** Another user has changed it first: shows both texts, and discards nothing before you choose. */

import { useState } from "preact/hooks";
import { Button, Dialog, Notice } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { Splitter } from "../../parts/Splitter.js";

interface ConflictProps {
  /** null: it was deleted. */
  stored: string | null;
  mine: string;
  onKeepMine: () => void;
  onTakeTheirs: () => void;
  what?: string;
}

export function Conflict({ stored, mine, onKeepMine, onTakeTheirs, what = "document" }: ConflictProps) {
  const [isComparing, setComparing] = useState(false);
  return (
    <Notice kind="warning" title={`This ${what} was ${stored === null ? "deleted" : "changed"} in the meantime`}>
      <p>This browser keeps your text, and the server has not stored it. {stored === null ? "Store it again, or discard it." : "Compare both, then continue with one of them."}</p>
      <div class="data-actions">
        {stored !== null && <Button onClick={() => setComparing(true)}>Show both</Button>}
        <Button onClick={onKeepMine}>{stored === null ? "Keep mine, to store it again" : "Keep mine, to save it over theirs"}</Button>
        <Button onClick={onTakeTheirs}>{stored === null ? "Discard mine" : "Take theirs, discard mine"}</Button>
      </div>
      {isComparing && stored !== null && (
        <Dialog title="Both versions" wide onClose={() => setComparing(false)}>
          <div class="data-both">
            <Splitter label="Share of the stored version" first={<Side title="Stored" text={stored} />} second={<Side title="Mine" text={mine} />} />
          </div>
          <div class="dialog-actions"><Button onClick={() => setComparing(false)}>Close</Button></div>
        </Dialog>
      )}
    </Notice>
  );
}

function Side({ title, text }: { title: string; text: string }) {
  return (
    <div class="data-text">
      <h3>{title}</h3>
      <div class="data-text-editor"><Editor label={`JSON, ${title.toLowerCase()}`} language="json" value={text} isReadOnly /></div>
    </div>
  );
}
