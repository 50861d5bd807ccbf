/** Somebody else was faster: both versions are shown, and nothing goes before it is chosen. */

import { useState } from "preact/hooks";
import { Button, Dialog, Notice } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { Splitter } from "../../parts/Splitter.js";
import { Tabs } from "../../parts/Tabs.js";
import { type Part, type Version, parts } from "./work.js";

interface ConflictProps {
  /** null: it was deleted. */
  stored: Version | null;
  mine: Version;
  onKeepMine: () => void;
  onTakeTheirs: () => void;
}

const titles: Readonly<Record<Part, string>> = { schema: "Schema", mappings: "Mappings", descriptor: "Descriptor" };

export function Conflict({ stored, mine, onKeepMine, onTakeTheirs }: ConflictProps) {
  const [isComparing, setComparing] = useState(false);
  const isNew = mine.etag === null;
  const title = stored === null ? "Somebody else has deleted this app" : isNew ? "Somebody else has stored an app of this name" : "Somebody else has changed this app";
  return (
    <Notice kind="warning" title={title}>
      <p>Your work is kept, and nothing of it is stored. {stored === null ? "You can store it again, or let it go." : "Look at both, then go on with one of them."}</p>
      <div class="apps-choices">
        {stored !== null && <Button onClick={() => setComparing(true)}>Show both</Button>}
        <Button onClick={onKeepMine}>{stored === null ? "Keep mine, to store it again" : "Keep mine, to save it over theirs"}</Button>
        <Button onClick={onTakeTheirs}>{stored === null ? "Let mine go" : "Take theirs, let mine go"}</Button>
      </div>
      {isComparing && stored !== null && <Both stored={stored} mine={mine} onClose={() => setComparing(false)} />}
    </Notice>
  );
}

function Both({ stored, mine, onClose }: { stored: Version; mine: Version; onClose: () => void }) {
  const differing = parts.filter((part) => stored.texts[part] !== mine.texts[part]);
  const [part, setPart] = useState<Part>(differing[0] ?? "schema");
  const tabs = parts.map((key) => ({ key, label: differing.includes(key) ? `${titles[key]} (differs)` : titles[key] }));
  return (
    <Dialog title="Both versions" wide onClose={onClose}>
      <div class="apps-both">
        <Tabs label="Parts of the definition" tabs={tabs} selected={part} onSelect={setPart}>
          <Splitter label="Share of the stored version" first={<Side title="Stored, by somebody else" part={part} version={stored} />} second={<Side title="Mine" part={part} version={mine} />} />
        </Tabs>
      </div>
      <div class="dialog-actions"><Button onClick={onClose}>Close</Button></div>
    </Dialog>
  );
}

function Side({ title, part, version }: { title: string; part: Part; version: Version }) {
  return (
    <div class="apps-pane">
      <h3 class="apps-pane-title">{title}</h3>
      <Editor key={part} label={`${titles[part]}, ${title.toLowerCase()}`} language={part === "schema" ? "graphql" : "yaml"} value={version.texts[part]} isReadOnly />
    </div>
  );
}
