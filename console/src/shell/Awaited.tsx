/** Shown to a user who was logged in here before: the work that waits, and how to continue. */

import { findUnsaved } from "../api/kept.js";
import { stayAnonymous } from "../api/session.js";
import { Button, Empty } from "../parts/basic.js";

export function Awaited({ name, onLogIn }: { name: string; onLogIn: () => void }) {
  const waiting = findUnsaved(name, true);
  return (
    <>
      <h1 class="offscreen">Log in</h1>
    <Empty title={waiting === "" ? "Log in to continue" : `Log in to continue with your ${waiting}`}>
      <p>The login of <strong>{name}</strong> has ended. This browser keeps your work until you log out.</p>
      <div class="empty-actions">
        <Button kind="primary" onClick={onLogIn}>{`Log in as ${name}`}</Button>
        <Button kind="quiet" onClick={stayAnonymous}>Continue without a login</Button>
      </div>
    </Empty>
    </>
  );
}
