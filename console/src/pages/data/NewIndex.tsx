/** Asks for the keys and options of an index and creates it. */

import { useState } from "preact/hooks";
import { createIndex } from "../../api/changes.js";
import type { Segments } from "../../api/data.js";
import { type Value, isFields, parseTyped } from "../../api/typed.js";
import { Button, Dialog, Field } from "../../parts/basic.js";
import { Scalar } from "../../parts/json.js";
import { Refusal } from "./Refusal.js";

interface NewIndexProps {
  segments: Segments;
  onMade: () => void;
  onClose: () => void;
}

export function NewIndexDialog({ segments, onMade, onClose }: NewIndexProps) {
  const [keys, setKeys] = useState("");
  const [name, setName] = useState("");
  const [options, setOptions] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const usualName = nameFor(keys);
  const wrongOptions = options.trim() !== "" && readFields(options) === null;
  const chosen = name.trim() || usualName;
  const create = async (event: Event) => {
    event.preventDefault();
    if (chosen === "" || wrongOptions || usualName === "" || isRunning) return;
    setRunning(true);
    try {
      await createIndex(segments, chosen, keys, options);
      onMade();
    } catch (thrown) {
      setRunning(false);
      setError(thrown);
    }
  };
  return (
    <Dialog title="New index" onClose={onClose}>
      <form onSubmit={(event) => void create(event)}>
        <Field label="Keys" hint={keys.trim() !== "" && usualName === "" ? 'This is not JSON such as {"age": -1} yet.' : 'JSON, such as {"age": -1, "_id": -1}'} value={keys} onInput={setKeys} autocomplete="off" />
        <Field label="Name" value={name} onInput={setName} placeholder={usualName} autocomplete="off" />
        <Field label="Options" hint={wrongOptions ? "This is not JSON yet." : 'JSON or nothing, such as {"unique": true}'} value={options} onInput={setOptions} autocomplete="off" />
        {error !== null && <Refusal error={error} title="Not created" said={{ 403: "You need a rule with allowManagementRequests to manage indexes." }} />}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={chosen === "" || usualName === "" || wrongOptions || isRunning}>Create</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The default name that the database gives an index; empty: the keys are not valid. */
function nameFor(keys: string): string {
  const fields = readFields(keys);
  return fields === null ? "" : [...fields].map(([name, value]) => `${name}_${value instanceof Scalar ? value.text : typeof value === "string" ? value : ""}`).join("_").replace(/^_+/, "");
}

function readFields(text: string): ReadonlyMap<string, Value> | null {
  try {
    const value = parseTyped(text);
    return isFields(value) ? value : null;
  } catch {
    return null;
  }
}
