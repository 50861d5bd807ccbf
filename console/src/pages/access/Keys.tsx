/** API keys: a list, a new one, another secret, the end of one. A secret is shown once. */

import { useState } from "preact/hooks";
import { type ApiKey, hasKeys, type KeyOrder, makeKey, readKeys, revokeKey, rotateKey } from "../../api/keys.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { Button, CopyButton, Empty, ErrorNotice, Field, Loading, Notice } from "../../parts/basic.js";
import { RolesField } from "../../parts/Roles.js";
import { Table } from "../../parts/Table.js";
import { useCallerEffect } from "../data/useCallerEffect.js";

interface Shown {
  readonly keys: readonly ApiKey[];
  readonly next: string | undefined;
}

export function Keys() {
  if (!hasKeys) {
    return <Empty title="API keys are off"><p>Set <code>apiKeyMechanism.enabled</code> to let machines use keys.</p></Empty>;
  }
  return <KeyList />;
}

function KeyList() {
  const [shown, setShown] = useState<Shown | null>(null);
  const [after, setAfter] = useState("");
  const [attempt, setAttempt] = useState(0);
  const [error, setError] = useState<unknown>(null);
  const [secret, setSecret] = useState<{ name: string; text: string } | null>(null);
  useCallerEffect((signal) => {
    readKeys(after, signal).then(
      ({ keys, next }) => setShown({ keys, next }),
      (thrown: unknown) => signal.aborted || setError(thrown),
    );
  }, [after, attempt]);
  const change = async (work: () => Promise<void>) => {
    setError(null);
    setSecret(null);
    try {
      await work();
      setAttempt((number) => number + 1);
    } catch (thrown) {
      setError(thrown);
    }
  };
  const rotate = (key: ApiKey) => change(async () => setSecret({ name: key.name, text: await rotateKey(key) }));
  const revoke = (key: ApiKey) => change(() => revokeKey(key));
  return (
    <div class="data-documents data-documents-open">
      <div class="data-list access-list">
        {error !== null && <ErrorNotice error={error} title="Not done" />}
        {secret !== null && (
          <Notice kind="good" title={`The key ${secret.name} is shown once`}>
            <code class="access-secret">{secret.text}</code> <CopyButton text={secret.text} />
          </Notice>
        )}
        {shown === null ? error === null && <Loading what="Reading keys" /> : <KeyTable keys={shown.keys} onRotate={(key) => void rotate(key)} onRevoke={(key) => void revoke(key)} />}
        {shown?.next !== undefined && <div><Button onClick={() => setAfter(shown.next ?? "")}>More keys</Button></div>}
      </div>
      <NewKey onOrder={(order) => change(async () => setSecret({ name: order.name, text: await makeKey(order) }))} />
    </div>
  );
}

function KeyTable({ keys, onRotate, onRevoke }: { keys: readonly ApiKey[]; onRotate: (key: ApiKey) => void; onRevoke: (key: ApiKey) => void }) {
  const [asked, setAsked] = useState<string | null>(null);
  if (keys.length === 0) return <Empty title="No keys yet"><p>A key lets a pipeline, a dashboard or an agent call this server.</p></Empty>;
  return (
    <Table
      label="API keys"
      rows={keys}
      rowKey={(key) => key._id}
      columns={[
        { title: "Key", render: (key) => `${key.owner}/${key.name}` },
        { title: "Roles", render: (key) => <span class="access-chips">{key.roles.map((role) => <span key={role} class="chip">{role}</span>)}</span> },
        { title: "Ends", render: (key) => (key.active ? key.notAfter.slice(0, 10) : <span class="soft">has ended</span>) },
        { title: "Last used", render: (key) => key.lastUsedAt?.slice(0, 16).replace("T", " ") ?? <span class="soft">not yet</span> },
        {
          title: "",
          render: (key) =>
            asked === key._id ? (
              <Button kind="danger" onClick={() => onRevoke(key)}>Revoke now</Button>
            ) : (
              <>
                <Button kind="quiet" onClick={() => onRotate(key)}>Rotate</Button>
                <Button kind="quiet" onClick={() => setAsked(key._id)}>Revoke</Button>
              </>
            ),
        },
      ]}
    />
  );
}

const split = (text: string) => text.split(/[\s,]+/).filter((part) => part !== "");

function NewKey({ onOrder }: { onOrder: (order: KeyOrder) => Promise<void> }) {
  const { login } = useStore(sessionState);
  const [name, setName] = useState("");
  const [until, setUntil] = useState("");
  const [roles, setRoles] = useState<readonly string[]>([]);
  const [networks, setNetworks] = useState("");
  const [inherits, setInherits] = useState("");
  const make = async (event: Event) => {
    event.preventDefault();
    await onOrder({ name: name.trim(), until, roles, networks: split(networks), inherits: split(inherits) });
    setName("");
  };
  return (
    <section class="data-document" aria-label="New key">
      <div class="data-head"><h2>Make a key</h2></div>
      <form class="access-form" onSubmit={(event) => void make(event)}>
        <Field label="Name" autocomplete="off" required value={name} onInput={setName} hint="Shown in the log, such as nightly." />
        <Field label="Ends on" autocomplete="off" required value={until} onInput={setUntil} placeholder="2027-03-31" hint="A date, in UTC." />
        <RolesField label="Roles" roles={roles} known={login?.roles ?? []} onChange={setRoles} hint="Some of yours. Enter adds one." />
        <Field label="Networks" autocomplete="off" value={networks} onInput={setNetworks} hint="Optional: 10.1.0.0/16" />
        <Field label="Properties" autocomplete="off" value={inherits} onInput={setInherits} hint="Optional: yours that apps and rules read, such as team" />
        <div class="data-actions"><Button kind="primary" type="submit" disabled={name.trim() === "" || until === ""}>Make</Button></div>
      </form>
    </section>
  );
}
