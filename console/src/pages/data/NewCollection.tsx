/** Asks for the name of a collection and creates it; an existing one does not change. */

import { useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { createCollection } from "../../api/changes.js";
import { Button, Dialog, Field } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { addressOf } from "./places.js";
import { Refusal } from "./Refusal.js";

export function NewCollectionDialog({ segments, onClose }: { segments: Segments; onClose: () => void }) {
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const create = async (event: Event) => {
    event.preventDefault();
    if (name === "" || isRunning) return;
    setRunning(true);
    try {
      await createCollection([...segments, name]);
      go(addressOf([...segments, name]));
    } catch (thrown) {
      setRunning(false);
      setError(thrown);
    }
  };
  return (
    <Dialog title="New collection" onClose={onClose}>
      <form onSubmit={(event) => void create(event)}>
        <Field label="Name" value={name} onInput={setName} autocomplete="off" />
        {error !== null && <Refusal error={error} title="Not created" said={{ 412: "A collection with this name already exists.", 403: "You may not create a collection with this name." }} />}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={name === "" || isRunning}>Create</Button>
        </div>
      </form>
    </Dialog>
  );
}
