/** The logged-in user with roles, and the buttons to log in and out. */

import { useState } from "preact/hooks";
import { findUnsaved } from "../api/kept.js";
import { logOut, sessionState } from "../api/session.js";
import { useStore } from "../api/store.js";
import { Button, Dialog } from "../parts/basic.js";

export function Account({ onLogIn }: { onLogIn: () => void }) {
  const { login, isReady } = useStore(sessionState);
  const [isLeaving, setLeaving] = useState(false);
  const [unsaved, setUnsaved] = useState("");
  const leave = async () => {
    setUnsaved("");
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
      <Button kind="quiet" disabled={isLeaving} onClick={() => (findUnsaved(login.name) === "" ? void leave() : setUnsaved(findUnsaved(login.name)))}>Log out</Button>
      {unsaved !== "" && <AskToLeave unsaved={unsaved} onStay={() => setUnsaved("")} onLeave={() => void leave()} />}
    </div>
  );
}

function AskToLeave({ unsaved, onStay, onLeave }: { unsaved: string; onStay: () => void; onLeave: () => void }) {
  return (
    <Dialog title={`You have unsaved ${unsaved}`} onClose={onStay}>
      <p>Logging out removes all your work from this browser, including your unsaved {unsaved}.</p>
      <div class="dialog-actions">
        <Button onClick={onStay}>Stay</Button>
        <Button kind="danger" onClick={onLeave}>Log out and discard them</Button>
      </div>
    </Dialog>
  );
}
