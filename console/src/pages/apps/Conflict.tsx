/** Another user has changed it first: shows both versions, and discards nothing before you choose. */

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
  const title = stored === null ? "Another user has deleted this app" : isNew ? "Another user has stored an app with this name" : "Another user has changed this app";
  return (
    <Notice kind="warning" title={title}>
      <p>This browser keeps your work, and the server has not stored it. {stored === null ? "Store it again, or discard it." : "Compare both, then continue with one of them."}</p>
      <div class="apps-choices">
        {stored !== null && <Button onClick={() => setComparing(true)}>Show both</Button>}
        <Button onClick={onKeepMine}>{stored === null ? "Keep mine, to store it again" : "Keep mine, to save it over theirs"}</Button>
        <Button onClick={onTakeTheirs}>{stored === null ? "Discard mine" : "Take theirs, discard mine"}</Button>
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
          <Splitter label="Share of the stored version" first={<Side title="Stored, by another user" part={part} version={stored} />} second={<Side title="Mine" part={part} version={mine} />} />
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
