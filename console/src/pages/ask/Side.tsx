/** The panel next to the query: the documentation, the saved queries, or the history. */

import { Button, Loading } from "../../parts/basic.js";
import { Docs } from "./Docs.js";
import type { Spot } from "./docsModel.js";
import { HistoryPanel } from "./HistoryPanel.js";
import type { Entry } from "./history.js";
import type { SchemaState } from "./introspection.js";
import type { Builder } from "./queryBuilder.js";
import { SavedPanel } from "./SavedPanel.js";
import type { SavedPlace, SavedQuery } from "./saved.js";
import type { Draft } from "./workspace.js";

export type SideKind = "docs" | "saved" | "history";

interface SideProps {
  side: SideKind;
  schema: SchemaState;
  way: readonly Spot[];
  entries: readonly Entry[];
  builder: Builder;
  draft: Draft;
  place: SavedPlace;
  onGo: (way: readonly Spot[]) => void;
  onClose: () => void;
  onOpen: (entry: Entry | SavedQuery) => void;
  onClear: () => void;
}

const titles: Readonly<Record<SideKind, string>> = { docs: "Documentation", saved: "Saved queries", history: "History" };

export function Side({ side, schema, way, entries, builder, draft, place, onGo, onClose, onOpen, onClear }: SideProps) {
  const title = titles[side];
  return (
    <aside class="ask-side" aria-label={title}>
      <div class="ask-side-head">
        <h2>{title}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {side === "history" && <HistoryPanel entries={entries} onOpen={onOpen} onClear={onClear} />}
      {side === "saved" && <SavedPanel place={place} draft={draft} onOpen={onOpen} />}
      {side === "docs" && schema.kind === "loading" && <Loading what="Loading the schema" />}
      {side === "docs" && schema.kind === "ready" && <Docs schema={schema.schema} way={way} onGo={onGo} builder={builder} />}
      {side === "docs" && (schema.kind === "refused" || schema.kind === "failed") && <p class="soft">Without a schema there is nothing to show.</p>}
    </aside>
  );
}
