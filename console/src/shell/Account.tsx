/** Who is logged in, with which roles, and the way in and out. */

import { useState } from "preact/hooks";
import { listKept } from "../api/kept.js";
import { logOut, sessionState } from "../api/session.js";
import { useStore } from "../api/store.js";
import { Button, Dialog } from "../parts/basic.js";

export function Account({ onLogIn }: { onLogIn: () => void }) {
  const { login, isReady } = useStore(sessionState);
  const [isLeaving, setLeaving] = useState(false);
  const [isAsked, setAsked] = useState(false);
  const leave = async () => {
    setAsked(false);
    setLeaving(true);
    try {
      await logOut();
    } finally {
      setLeaving(false);
    }
  };
  if (!isReady) return null;
  if (login === null) {
    return (
      <div class="account">
        <span class="soft">Not logged in</span>
        <Button kind="primary" onClick={onLogIn}>Log in</Button>
      </div>
    );
  }
  return (
    <div class="account">
      <span class="account-name" title={login.name}>{login.name}</span>
      <ul class="account-roles" aria-label="Roles">
        {login.roles.map((role) => <li key={role} class="chip">{role}</li>)}
        {login.roles.length === 0 && <li class="soft">no roles</li>}
      </ul>
      <Button kind="quiet" disabled={isLeaving} onClick={() => (hasUnsaved(login.name) ? setAsked(true) : void leave())}>Log out</Button>
      {isAsked && <AskToLeave onStay={() => setAsked(false)} onLeave={() => void leave()} />}
    </div>
  );
}

/** Definitions that this browser keeps for a user until they are saved. */
function hasUnsaved(name: string): boolean {
  return listKept(name, "app").length > 0;
}

function AskToLeave({ onStay, onLeave }: { onStay: () => void; onLeave: () => void }) {
  return (
    <Dialog title="There are unsaved definitions" onClose={onStay}>
      <p>Logging out makes this browser forget everything of yours, also the definitions of apps that you have not saved.</p>
      <div class="dialog-actions">
        <Button onClick={onStay}>Stay</Button>
        <Button kind="danger" onClick={onLeave}>Log out, and lose them</Button>
      </div>
    </Dialog>
  );
}
