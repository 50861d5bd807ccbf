/** Asks before something is removed, and shows why it could not be removed. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button, Dialog } from "../../parts/basic.js";
import { Refusal } from "./Refusal.js";

interface ConfirmProps {
  title: string;
  /** What the button says. */
  action: string;
  onConfirm: () => Promise<void>;
  onDone: () => void;
  onClose: () => void;
  said?: Readonly<Record<number, string>>;
  children: ComponentChildren;
}

export function ConfirmDialog({ title, action, onConfirm, onDone, onClose, said, children }: ConfirmProps) {
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const confirm = () => {
    setRunning(true);
    onConfirm().then(onDone, (thrown: unknown) => {
      setRunning(false);
      setError(thrown);
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error !== null && <Refusal error={error} title="Nothing was changed" {...(said ? { said } : {})} />}
      <div class="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="danger" disabled={isRunning} onClick={confirm}>{action}</Button>
      </div>
    </Dialog>
  );
}
