/** The panel next to the query: the documentation, or the history. */

import { Button, Loading } from "../../parts/basic.js";
import { Docs } from "./Docs.js";
import type { Spot } from "./docsModel.js";
import { HistoryPanel } from "./HistoryPanel.js";
import type { Entry } from "./history.js";
import type { SchemaState } from "./introspection.js";

export type SideKind = "docs" | "history";

interface SideProps {
  side: SideKind;
  schema: SchemaState;
  way: readonly Spot[];
  entries: readonly Entry[];
  onGo: (way: readonly Spot[]) => void;
  onClose: () => void;
  onOpen: (entry: Entry) => void;
  onClear: () => void;
}

export function Side({ side, schema, way, entries, onGo, onClose, onOpen, onClear }: SideProps) {
  const title = side === "docs" ? "Documentation" : "History";
  return (
    <aside class="ask-side" aria-label={title}>
      <div class="ask-side-head">
        <h2>{title}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {side === "history" && <HistoryPanel entries={entries} onOpen={onOpen} onClear={onClear} />}
      {side === "docs" && schema.kind === "loading" && <Loading what="Loading the schema" />}
      {side === "docs" && schema.kind === "ready" && <Docs schema={schema.schema} way={way} onGo={onGo} />}
      {side === "docs" && (schema.kind === "refused" || schema.kind === "failed") && <p class="soft">Without a schema there is nothing to show.</p>}
    </aside>
  );
}
