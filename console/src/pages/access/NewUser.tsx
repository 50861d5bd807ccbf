/** A new user: name, password, roles; an existing user is never overwritten. */

import { useState } from "preact/hooks";
import type { UsersPlace } from "../../api/realm.js";
import { addUser } from "../../api/users.js";
import { Button, Field, Notice } from "../../parts/basic.js";
import { RolesField } from "../../parts/Roles.js";
import { PasswordRefusal, WeakPassword } from "./PasswordRefusal.js";
import { describeDemand, isGuessed, noRootRole } from "./words.js";

interface NewUserProps {
  users: UsersPlace;
  rootRole: string | null;
  known: readonly string[];
  onStored: () => void;
  onClose: () => void;
}

export function NewUser({ users, rootRole, known, onStored, onClose }: NewUserProps) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [roles, setRoles] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const [added, setAdded] = useState("");
  const [isAccepted, setAccepted] = useState(false);
  const isWeak = isGuessed(password, name);
  const add = async (event: Event) => {
    event.preventDefault();
    setRunning(true);
    setError(null);
    setAdded("");
    try {
      await addUser(users, name.trim(), password, roles);
      setAdded(name.trim());
      setName("");
      setRoles([]);
      onStored();
      setPassword("");
      setAccepted(false);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setRunning(false);
    }
  };
  return (
    <section class="data-document" aria-label="New user">
      <div class="data-head">
        <h2>Add a user</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {added !== "" && <Notice kind="good">{added} can log in now.</Notice>}
      {error !== null && <PasswordRefusal error={error} title="Not added" said={{ 409: "A user with this name already exists. Nothing was changed.", 403: noRootRole(rootRole, "You may not add users.") }} />}
      <form class="access-form" onSubmit={(event) => void add(event)}>
        <Field label="Name" autocomplete="off" required value={name} onInput={setName} />
        <Field label="Password" type="password" autocomplete="new-password" required value={password} onInput={setPassword} hint={describeDemand(users.minimumPasswordStrength)} />
        {isWeak && <WeakPassword isAccepted={isAccepted} onChange={setAccepted} />}
        {users.propRoles !== null && <RolesField label="Roles" roles={roles} known={known} onChange={setRoles} hint="Rules say what a role may do. Enter adds one." />}
        <div class="data-actions"><Button kind="primary" type="submit" disabled={isRunning || name.trim() === "" || password === "" || (isWeak && !isAccepted)}>Add</Button></div>
      </form>
    </section>
  );
}
