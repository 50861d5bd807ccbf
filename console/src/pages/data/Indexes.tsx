/** The indexes of a collection: list, create, delete. */

import { useState } from "preact/hooks";
import { listIndexes, removeIndex } from "../../api/changes.js";
import { type Segments, dataPath } from "../../api/data.js";
import { asApiError } from "../../api/error.js";
import { useRights } from "../../api/rights.js";
import { type Fields, writeTyped } from "../../api/typed.js";
import { Button, Loading } from "../../parts/basic.js";
import { type Column, Table } from "../../parts/Table.js";
import { ConfirmDialog } from "./Confirm.js";
import { NewIndexDialog } from "./NewIndex.js";
import { Refusal } from "./Refusal.js";
import { useCallerEffect } from "./useCallerEffect.js";

type Found = { readonly indexes: readonly Fields[] } | { readonly error: unknown } | null;

const shownApart = new Set(["_id", "key", "v"]); // `v` is the same for all of them

export function Indexes({ segments }: { segments: Segments }) {
  const [found, setFound] = useState<Found>(null);
  const [attempt, setAttempt] = useState(0);
  const [isMaking, setMaking] = useState(false);
  const [doomed, setDoomed] = useState<string | null>(null);
  const path = dataPath([...segments, "_indexes", "name"]);
  const rights = useRights([path]);
  useCallerEffect((signal) => {
    listIndexes(segments, signal).then(
      (indexes) => setFound({ indexes }),
      (error: unknown) => signal.aborted || setFound({ error }),
    );
  }, [attempt]);
  const reload = () => {
    setMaking(false);
    setDoomed(null);
    setAttempt((count) => count + 1);
  };
  if (found === null) return <Loading what="Reading the indexes" />;
  if ("error" in found) return <NotListed error={found.error} onRetry={reload} />;
  const columns: readonly Column<Fields>[] = [
    { title: "Name", render: (index) => <strong>{nameOf(index)}</strong> },
    { title: "Keys", render: (index) => <code>{writeTyped(index.get("key") ?? null, 0)}</code> },
    { title: "Options", render: (index) => <Options index={index} /> },
    ...(!rights.may("DELETE", path) ? [] : [{ title: "Delete", render: (index: Fields) => (nameOf(index).startsWith("_") ? <span class="soft">cannot be deleted</span> : <Button kind="quiet" aria-label={`Delete ${nameOf(index)}`} onClick={() => setDoomed(nameOf(index))}>Delete</Button>) }]),
  ];
  return (
    <div class="data-indexes">
      {rights.may("PUT", path) && <div><Button onClick={() => setMaking(true)}>New index</Button></div>}
      <Table label="Indexes" columns={columns} rows={found.indexes} rowKey={nameOf} />
      {isMaking && <NewIndexDialog segments={segments} onMade={reload} onClose={() => setMaking(false)} />}
      {doomed !== null && (
        <ConfirmDialog title={`Delete the index ${doomed}`} action="Delete" onConfirm={() => removeIndex(segments, doomed)} onDone={reload} onClose={() => setDoomed(null)}>
          <p>The documents stay as they are. Queries that use this index scan the collection instead. If the index is unique, its values no longer have to be.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function nameOf(index: Fields): string {
  const name = index.get("_id");
  return typeof name === "string" ? name : "";
}

function Options({ index }: { index: Fields }) {
  const options = [...index].filter(([name]) => !shownApart.has(name));
  return options.length === 0 ? null : <code>{writeTyped(new Map(options), 0)}</code>;
}

function NotListed({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const isRefused = asApiError(error).status === 403 || asApiError(error).status === 401;
  const said = { 403: "You need a rule with allowManagementRequests to manage indexes.", 404: "There is no such collection." };
  return (
    <div class="data-indexes">
      <Refusal error={error} title={isRefused ? "You may not read the indexes" : "The indexes could not be read"} said={said} />
      <div><Button onClick={onRetry}>Try again</Button></div>
    </div>
  );
}
