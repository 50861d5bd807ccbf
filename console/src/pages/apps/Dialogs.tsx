/** Questions before something is lost. */

import { useState } from "preact/hooks";
import { Button, Dialog, ErrorNotice, Field } from "../../parts/basic.js";
import { isOvertaken } from "./useWork.js";

const mostShown = 20;

export function ConfirmBreaking({ effects, onCancel, onSave }: { effects: readonly string[]; onCancel: () => void; onSave: () => void }) {
  return (
    <Dialog title="This breaks clients" onClose={onCancel}>
      <p>Queries that work today will fail, or answer something else:</p>
      <ul class="apps-list">
        {effects.slice(0, mostShown).map((effect) => <li key={effect}>{effect}</li>)}
        {effects.length > mostShown && <li class="soft">and {effects.length - mostShown} more</li>}
      </ul>
      <div class="dialog-actions">
        <Button onClick={onCancel}>Cancel</Button>
        <Button kind="danger" onClick={onSave}>Save anyway</Button>
      </div>
    </Dialog>
  );
}

export function ConfirmDelete({ name, onRemove, onClose }: { name: string; onRemove: () => Promise<void>; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const remove = async (event: Event) => {
    event.preventDefault();
    if (typed !== name || isRunning) return;
    setRunning(true);
    try {
      await onRemove();
    } catch (thrown) {
      setRunning(false);
      setError(thrown);
    }
  };
  return (
    <Dialog title="Delete this app" onClose={onClose}>
      <form onSubmit={(event) => void remove(event)}>
        <p>Its address then answers 404. The data and the rules for the app do not change.</p>
        <Field label={`Type its name to delete it: ${name}`} value={typed} onInput={setTyped} autocomplete="off" />
        {error !== null && (
          <ErrorNotice error={error} title={isOvertaken(error) ? "Not deleted: another user has changed it in the meantime" : "Not deleted"} />
        )}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" disabled={typed !== name || isRunning}>Delete</Button>
        </div>
      </form>
    </Dialog>
  );
}
