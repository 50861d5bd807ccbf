/** The JSON of a document, to be changed; of a very large one its beginning. */

import type { StoredDocument } from "../../api/data.js";
import { Notice } from "../../parts/basic.js";
import { Editor, type Finding } from "../../parts/Editor.js";
import { layOut } from "../../parts/json.js";
import { mostToEdit } from "./work.js";

interface DocumentTextProps {
  stored: StoredDocument | null;
  text: string;
  mistake: Finding | null;
  mayEdit: boolean;
  onChange: (text: string) => void;
  onSave: () => boolean;
}

const mostShown = 20_000; // characters of what is too large to edit

export function DocumentText({ stored, text, mistake, mayEdit, onChange, onSave }: DocumentTextProps) {
  if (stored !== null && stored.text.length > mostToEdit) {
    return (
      <div class="data-large">
        <Notice title="This document is too large to be edited here">
          <p>These are the first {mostShown.toLocaleString("en")} of {stored.text.length.toLocaleString("en")} characters. Download has all of them.</p>
        </Notice>
        <pre tabIndex={0} aria-label="JSON, the beginning">{layOut(stored.text, mostShown)}</pre>
      </div>
    );
  }
  return (
    <div class="data-text">
      {mistake !== null && <p class="data-wrong" role="status">Line {mistake.line}: {mistake.message}</p>}
      <div class="data-text-editor">
        <Editor key={String(mayEdit)} label="JSON" language="json" isReadOnly={!mayEdit} value={text} onChange={onChange} findings={mistake === null ? [] : [mistake]} keys={[{ key: "Mod-s", run: onSave }, { key: "Mod-Enter", run: onSave }]} />
      </div>
    </div>
  );
}
