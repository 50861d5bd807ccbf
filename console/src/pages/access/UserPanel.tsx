/** One user: change roles or password separately, or delete the user; rejected if the user was changed in the meantime. */

import { useState } from "preact/hooks";
import { asApiError } from "../../api/error.js";
import { type DocumentId, nameOfId, pathTo } from "../../api/ids.js";
import type { UsersPlace } from "../../api/realm.js";
import { dataPath } from "../../api/data.js";
import { useRights } from "../../api/rights.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { type User, changeUser, findUser, removeUser, segmentsIn } from "../../api/users.js";
import { Button, DiscardButton, Empty, Field, Loading, Notice } from "../../parts/basic.js";
import { RolesField } from "../../parts/Roles.js";
import { address } from "../../shell/router.js";
import { ConfirmDialog } from "../data/Confirm.js";
import { addressOf as dataAddress, everything } from "../data/places.js";
import { Refusal } from "../data/Refusal.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { PasswordRefusal, WeakPassword } from "./PasswordRefusal.js";
import { describeDemand, isGuessed, noRootRole } from "./words.js";

interface UserPanelProps {
  users: UsersPlace;
  rootRole: string | null;
  id: DocumentId;
  known: readonly string[];
  onChanged: () => void;
  onClose: () => void;
}

type State = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly user: User | null };

const overtaken = "This user was changed in the meantime, and your change is not stored. The page now shows the stored user; what you have typed stays.";

export function UserPanel(props: UserPanelProps) {
  const { users, id, onClose } = props;
  const [state, setState] = useState<State>({ kind: "loading" });
  const read = (signal?: AbortSignal) =>
    findUser(users, id, signal).then(
      (user) => setState({ kind: "ready", user }),
      (error: unknown) => signal?.aborted || setState((before) => (before.kind === "ready" ? before : { kind: "failed", error })),
    );
  useCallerEffect((signal) => void read(signal), []);
  const user = state.kind === "ready" ? state.user : null;
  return (
    <section class="data-document" aria-label="User">
      <div class="data-head">
        <h2>{user?.name ?? nameOfId(id)}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {state.kind === "loading" && <Loading what="Reading the user" />}
      {state.kind === "failed" && (
        <>
          <Refusal error={state.error} title="The user could not be read" />
          <div><Button onClick={() => void read()}>Try again</Button></div>
        </>
      )}
      {state.kind === "ready" && (user === null ? <Empty title="There is no such user"><p>It was deleted, or never existed.</p></Empty> : <Opened {...props} user={user} onAgain={read} />)}
    </section>
  );
}

function Opened({ users, rootRole, id, known, onChanged, user, onAgain }: UserPanelProps & { user: User; onAgain: () => Promise<unknown> }) {
  const { login } = useStore(sessionState);
  const [isDeleting, setDeleting] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const path = pathTo(dataPath(segmentsIn(users)), id) ?? "";
  const rights = useRights([path]);
  const mayChange = rights.may("PATCH", path);
  const isSelf = login !== null && login.name === user.name;
  const stored = async () => {
    onChanged();
    await onAgain();
  };
  const forms = { users, user, onRunning: setRunning, onStored: stored };
  const isRoot = rootRole !== null && (user.roles ?? []).includes(rootRole);
  return (
    <>
      {isRoot && <Notice>Has the root role <strong>{rootRole}</strong>, and may do everything. Give or remove that role on the server, with <code>docgraph users</code>.</Notice>}
      <fieldset class="access-forms" disabled={isRunning}>
        {mayChange && users.propRoles !== null && !isRoot && <RolesForm {...forms} rootRole={rootRole} known={known} property={users.propRoles} />}
        {mayChange && <PasswordForm {...forms} isSelf={isSelf} />}
      </fieldset>
      <div class="data-actions access-end">
        {rights.may("DELETE", path) && <Button kind="danger" onClick={() => setDeleting(true)}>Delete</Button>}
        {rootRole !== null && (login?.roles ?? []).includes(rootRole) && user.name !== null && <a href={`${address("access", "why")}#${new URLSearchParams({ user: user.name }).toString()}`}>What may this user do?</a>}
        <a href={dataAddress(segmentsIn(users), { ...everything, id })}>All properties, on the page Data</a>
      </div>
      {isDeleting && (
        <ConfirmDialog
          title="Delete this user"
          action="Delete"
          said={{ 412: overtaken, 403: "You may not delete this user." }}
          onConfirm={() => removeUser(users, user)}
          onDone={() => (setDeleting(false), void stored())}
          onClose={() => setDeleting(false)}
        >
          <p><strong>{user.name ?? nameOfId(id)}</strong> can no longer log in, and all logins of this user end immediately. {isSelf && "This is you."}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

interface ChangeProps {
  users: UsersPlace;
  user: User;
  onRunning: (isRunning: boolean) => void;
  /** Reads the user again. */
  onStored: () => Promise<void>;
}

/** Stores one property of a user. Until the user is loaded again no other change is possible, since it would be based on an old state. */
function useChange({ users, user, onRunning, onStored }: ChangeProps) {
  const [error, setError] = useState<unknown>(null);
  const [isDone, setDone] = useState(false);
  const change = async (property: string, value: unknown): Promise<boolean> => {
    onRunning(true);
    setError(null);
    setDone(false);
    try {
      await changeUser(users, user, property, value);
      await onStored();
      setDone(true);
      return true;
    } catch (thrown) {
      if ([404, 412].includes(asApiError(thrown).status)) await onStored();
      setError(thrown);
      return false;
    } finally {
      onRunning(false);
    }
  };
  return { error, isDone, change };
}

function RolesForm({ rootRole, known, property, ...rest }: ChangeProps & { rootRole: string | null; known: readonly string[]; property: string }) {
  const stored = rest.user.roles ?? [];
  const [mine, setMine] = useState<readonly string[] | null>(null);
  const { error, isDone, change } = useChange(rest);
  const roles = mine ?? stored;
  const isSame = JSON.stringify(roles) === JSON.stringify(stored);
  const save = async () => {
    if (await change(property, roles)) setMine(null);
  };
  return (
    <div class="access-form">
      <RolesField label="Roles" roles={roles} known={known} onChange={setMine} />
      {mine !== null && !isSame && error !== null && <p class="soft">Stored now: {stored.join(", ") || "no roles"}</p>}
      {error !== null && <Refusal error={error} title="Roles not saved" said={{ 412: overtaken, 404: "This user no longer exists, or you may not change it.", 403: noRootRole(rootRole, "You may not give these roles.") }} />}
      <div class="data-actions">
        <Button kind="primary" disabled={isSame} onClick={() => void save()}>Save roles</Button>
        {!isSame && <DiscardButton onDiscard={() => setMine(null)} />}
        {isDone && isSame && <span role="status" class="soft">Saved. They apply from the next request on.</span>}
      </div>
    </div>
  );
}

function PasswordForm({ isSelf, ...rest }: ChangeProps & { isSelf: boolean }) {
  const { users } = rest;
  const [password, setPassword] = useState("");
  const [isAccepted, setAccepted] = useState(false);
  const { error, isDone, change } = useChange(rest);
  const isWeak = isGuessed(password, nameOfId(rest.user.id));
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!(await change(users.propPassword, password))) return;
    setPassword("");
    setAccepted(false);
  };
  return (
    <form class="access-form" onSubmit={(event) => void submit(event)}>
      <Field label="New password" type="password" autocomplete="new-password" value={password} onInput={setPassword} hint={`${describeDemand(users.minimumPasswordStrength)} Setting it ends all logins of this user${isSelf ? ", also this one" : ""}.`} />
      {isWeak && <WeakPassword isAccepted={isAccepted} onChange={setAccepted} />}
      {error !== null && <PasswordRefusal error={error} title="Password not set" said={{ 412: overtaken, 404: "This user no longer exists, or you may not change it.", 403: "You may not set this password." }} />}
      <div class="data-actions">
        <Button type="submit" disabled={password === "" || (isWeak && !isAccepted)}>Set password</Button>
        {isDone && password === "" && <span role="status" class="soft">The password is set.</span>}
      </div>
    </form>
  );
}
