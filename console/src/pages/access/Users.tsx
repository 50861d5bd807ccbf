/** The users: found by the beginning of their names, one of them or a new one next to the list. */

import { useEffect, useState } from "preact/hooks";
import { nameOfId } from "../../api/ids.js";
import { dataPath } from "../../api/data.js";
import { useRights } from "../../api/rights.js";
import type { Realm, UsersPlace } from "../../api/realm.js";
import { type User, filterOf, readUser, segmentsIn } from "../../api/users.js";
import { writeTyped } from "../../api/typed.js";
import { Button, Empty, Loading } from "../../parts/basic.js";
import { Table } from "../../parts/Table.js";
import { go, useNoted } from "../../shell/router.js";
import { Refusal } from "../data/Refusal.js";
import { type List, useList, useOwnTrail } from "../data/useList.js";
import { NewUser } from "./NewUser.js";
import { type Open, addressOf, nothingOpen, readOpen } from "./places.js";
import { UserPanel } from "./UserPanel.js";

export function Users({ realm, hash }: { realm: Realm; hash: string }) {
  const { users } = realm;
  if (users === null) {
    return <Empty title="Users are not stored in the database"><p><code>dbRealmAuthenticator</code> is off: the configuration defines where users are stored.</p></Empty>;
  }
  if (users.path === null) {
    return <Empty title="The REST API does not serve the users"><p>Their collection is not mounted. <code>docgraph users</code> on the server adds, lists and removes them.</p></Empty>;
  }
  return <UserList realm={realm} users={users} hash={hash} />;
}

function UserList({ realm, users, hash }: { realm: Realm; users: UsersPlace; hash: string }) {
  const [typed, setTyped] = useNoted("find");
  const beginning = useDelayed(typed);
  const query = { filter: filterOf(users, beginning), sort: JSON.stringify({ [users.propId]: 1 }) };
  const list = useList(segmentsIn(users), query, useOwnTrail(query));
  const found = (list.page?.documents ?? []).map((fields) => readUser(users, fields));
  const known = [...new Set(found.flatMap((user) => user.roles ?? []))].filter((role) => role !== realm.rootRole).sort();
  const hasPages = list.hasPrevious || list.page?.next != null;
  const open = readOpen(hash);
  const path = dataPath(segmentsIn(users));
  const mayAdd = useRights([path]).may("POST", path);
  const close = () => go(addressOf("users", nothingOpen, typed));
  return (
    <div class={open.kind === "none" ? "data-documents" : "data-documents data-documents-open"}>
      <div class="data-list access-list">
        <div class="data-pager">
          <input class="input access-find" type="search" aria-label="Find users by the beginning of their names" placeholder="Find by name" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          {hasPages && <Button disabled={!list.hasPrevious || list.isLoading} onClick={list.previous}>Previous</Button>}
          {hasPages && <Button disabled={list.page?.next == null || list.isLoading} onClick={list.next}>Next</Button>}
          {mayAdd && <a class="button button-plain data-insert" href={addressOf("users", { kind: "new" }, typed)}>Add a user</a>}
        </div>
        <Found list={list} users={found} open={open} find={typed} isFiltered={beginning !== ""} isRoled={users.propRoles !== null} jsonPath={users.jsonPathRoles} />
      </div>
      {open.kind === "new" && <NewUser users={users} rootRole={realm.rootRole} known={known} onStored={list.reload} onClose={close} />}
      {open.kind === "one" && <UserPanel key={writeTyped(open.id, 0)} users={users} rootRole={realm.rootRole} id={open.id} known={known} onChanged={list.reload} onClose={close} />}
    </div>
  );
}

interface FoundProps {
  list: List;
  users: readonly User[];
  open: Open;
  find: string;
  isFiltered: boolean;
  isRoled: boolean;
  jsonPath: string;
}

function Found({ list, users, open, find, isFiltered, isRoled, jsonPath }: FoundProps) {
  if (list.error !== null) {
    const said = { 403: "You need a rule for the path of the users to read them.", 404: "The first user creates the collection: add one." };
    return (
      <>
        <Refusal error={list.error} title="The users could not be read" said={said} />
        <div><Button onClick={list.reload}>Try again</Button></div>
      </>
    );
  }
  if (list.page === null) return <Loading what="Reading users" />;
  if (users.length === 0) {
    return isFiltered ? <Empty title="No name begins with this text" /> : <Empty title="No users yet"><p><a href={addressOf("users", { kind: "new" })}>Add the first one</a>, and give it a role that has a rule.</p></Empty>;
  }
  const shown = open.kind === "one" ? writeTyped(open.id, 0) : null;
  return (
    <>
      {!isRoled && <p class="soft">Roles are read with <code>{jsonPath}</code>, which is not a single property: see and change them on the page Data.</p>}
      <Table
        label="Users"
        rows={users}
        rowKey={(user) => writeTyped(user.id, 0)}
        columns={[
          {
            title: "Name",
            render: (user) => (
              <a href={addressOf("users", { kind: "one", id: user.id }, find)} aria-current={writeTyped(user.id, 0) === shown ? "true" : undefined}>
                {user.name ?? nameOfId(user.id)}
              </a>
            ),
          },
          ...(isRoled ? [{ title: "Roles", render: (user: User) => <Roles roles={user.roles} /> }] : []),
        ]}
      />
    </>
  );
}

function Roles({ roles }: { roles: readonly string[] | null }) {
  if (roles === null) return <span class="soft">not a list: cannot log in</span>;
  if (roles.length === 0) return <span class="soft">none</span>;
  return <span class="access-chips">{roles.map((role) => <span key={role} class="chip">{role}</span>)}</span>;
}

/** The typed text, after a short pause. */
function useDelayed(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
