/** The window that asks for name and password; what the page shows stays as it is behind it. */

import { useState } from "preact/hooks";
import { asApiError } from "../api/error.js";
import { logIn, sessionState, stayAnonymous } from "../api/session.js";
import { settings } from "../api/settings.js";
import { useStore } from "../api/store.js";
import { Button, Dialog, ErrorNotice, Field, Notice } from "../parts/basic.js";

interface LoginProps {
  onClose: () => void;
  onLoggedIn: () => void;
}

export function LoginDialog({ onClose, onLoggedIn }: LoginProps) {
  return settings.passwords ? <PasswordDialog onClose={onClose} onLoggedIn={onLoggedIn} /> : <NoWay onClose={onClose} />;
}

function NoWay({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Log in" onClose={onClose}>
      <Notice>
        This server accepts no passwords: <code>basicAuthMechanism</code> is off. The console continues without a login, as far as rules allow.
      </Notice>
      <div class="dialog-actions">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}

function PasswordDialog({ onClose, onLoggedIn }: LoginProps) {
  const { hasExpired, awaited } = useStore(sessionState);
  const [name, setName] = useState(awaited ?? "");
  const [password, setPassword] = useState("");
  const [failed, setFailed] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const close = () => {
    if (hasExpired) stayAnonymous();
    onClose();
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailed(null);
    try {
      await logIn(name, password);
      onClose();
      onLoggedIn();
    } catch (thrown) {
      setFailed(thrown);
    } finally {
      setPassword("");
      setBusy(false);
    }
  };
  return (
    <Dialog title="Log in" onClose={close}>
      {hasExpired && <Notice kind="warning">Your login has ended. Log in again to continue; nothing on the page is lost.</Notice>}
      {failed !== null && <Refusal error={failed} />}
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Name" name="username" autocomplete="username" required value={name} onInput={setName} />
        <Field
          label="Password"
          name="password"
          type="password"
          autocomplete="current-password"
          required
          value={password}
          onInput={setPassword}
        />
        <div class="dialog-actions">
          <Button kind="quiet" onClick={close}>{hasExpired ? "Continue without" : "Cancel"}</Button>
          <Button kind="primary" type="submit" disabled={isBusy}>{isBusy ? "Logging in …" : "Log in"}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Refusal({ error }: { error: unknown }) {
  const { status } = asApiError(error);
  if (status === 401) return <Notice kind="error">Name or password is wrong.</Notice>;
  if (status === 429) return <Notice kind="error">Too many attempts. Wait a little, then try again.</Notice>;
  return <ErrorNotice error={error} />;
}
