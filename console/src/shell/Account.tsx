/** Who is logged in, with which roles, and the way in and out. */

import { useState } from "preact/hooks";
import { logOut, sessionState } from "../api/session.js";
import { useStore } from "../api/store.js";
import { Button } from "../parts/basic.js";

export function Account({ onLogIn }: { onLogIn: () => void }) {
  const { login, isReady } = useStore(sessionState);
  const [isLeaving, setLeaving] = useState(false);
  const leave = async () => {
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
      <Button kind="quiet" disabled={isLeaving} onClick={() => void leave()}>Log out</Button>
    </div>
  );
}
