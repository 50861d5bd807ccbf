/** Asks for a collection and a name, and declares a stream of all changes. */

import { useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { declareStream, streamOf } from "../../api/streams.js";
import { Button, Dialog, Field } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { readPath } from "../data/places.js";
import { Refusal } from "../data/Refusal.js";
import { pathText } from "../data/visits.js";
import { addressOf } from "./places.js";

export function NewStreamDialog({ collection, onClose }: { collection: Segments; onClose: () => void }) {
  const [path, setPath] = useState(pathText(collection));
  const [name, setName] = useState("all");
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const isReady = path.trim() !== "" && name !== "" && !isRunning;
  const declare = async (event: Event) => {
    event.preventDefault();
    if (!isReady) return;
    setRunning(true);
    try {
      await declareStream(readPath(path), name);
      go(addressOf(streamOf(readPath(path), name)));
    } catch (thrown) {
      setRunning(false);
      setError(thrown);
    }
  };
  const said = {
    403: "You need a rule with allowManagementRequests for the collection to declare a stream.",
    404: "There is no such collection.",
    409: "The collection already has a stream with this name.",
  };
  return (
    <Dialog title="New stream" onClose={onClose}>
      <form onSubmit={(event) => void declare(event)}>
        <Field label="Collection" hint="its path, such as notes or shop/orders" value={path} onInput={setPath} autocomplete="off" />
        <Field label="Name" hint="the end of its address: notes/_streams/all" value={name} onInput={setName} autocomplete="off" />
        <p class="soft">It reports every change of the collection to all callers who may read its address. Use the REST API to add stages that filter the changes.</p>
        {error !== null && <Refusal error={error} title="Not declared" said={said} />}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!isReady}>Declare it</Button>
        </div>
      </form>
    </Dialog>
  );
}
