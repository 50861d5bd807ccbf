/** All apps, with their state: the stored definitions for callers who may read them, for others the apps that they may use. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type ListedApp, idOf, listStored, nameOf, pathOfApp } from "../../api/apps.js";
import { ApiError } from "../../api/error.js";
import { type VisibleApp, appPath, listApps } from "../../api/graphql.js";
import { listKept } from "../../api/kept.js";
import { useRights } from "../../api/rights.js";
import { sessionState } from "../../api/session.js";
import { settings } from "../../api/settings.js";
import { useStore } from "../../api/store.js";
import { Button, Empty, ErrorNotice, Loading, Notice } from "../../parts/basic.js";
import { type Column, Table } from "../../parts/Table.js";
import { MarkdownLine } from "../../parts/Markdown.js";
import { address, useNoted } from "../../shell/router.js";
import { NewAppDialog } from "./NewApp.js";
import { StateChip, describeFindings } from "./States.js";
import { type Outcome, stateOf, useOutcomes } from "./useOutcomes.js";
import { addressOf } from "./places.js";

type Found =
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "stored"; readonly apps: readonly ListedApp[] }
  | { readonly kind: "visible"; readonly apps: readonly VisibleApp[] };

const definitions = settings.definitions === null ? [] : [settings.definitions];
const portion = 100;
const fewEnough = 12; // to be seen at a glance, without a filter

export function AppList({ owner }: { owner: string | null }) {
  const { login } = useStore(sessionState);
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  const [isNaming, setNaming] = useState(false);
  const rights = useRights(definitions);
  const mayRead = definitions.every((path) => rights.may("GET", path));
  const mayWrite = definitions.some((path) => rights.may("POST", path) || rights.may("PUT", path));
  useEffect(() => {
    if (!rights.isKnown) return undefined;
    const controller = new AbortController();
    findApps(mayRead, controller.signal).then(setFound, (error: unknown) => {
      if (!controller.signal.aborted) setFound({ kind: "failed", error });
    });
    return () => controller.abort();
  }, [login?.name, attempt, rights.isKnown, mayRead]);
  return (
    <div class="page">
      <div class="apps-head">
        <h1>Apps</h1>
        {found.kind === "stored" && mayWrite && <Button kind="primary" onClick={() => setNaming(true)}>New app</Button>}
      </div>
      {found.kind === "loading" && <Loading what="Loading the apps" />}
      {found.kind === "failed" && (
        <>
          <ErrorNotice error={found.error} title="The apps could not be listed" />
          <div><Button onClick={() => setAttempt(attempt + 1)}>Try again</Button></div>
        </>
      )}
      {found.kind === "stored" && <StoredApps owner={owner} apps={found.apps} onNew={mayWrite ? () => setNaming(true) : null} />}
      {found.kind === "visible" && <VisibleApps apps={found.apps} isLoggedIn={login !== null} />}
      {isNaming && found.kind === "stored" && <NewAppDialog taken={found.apps.map((app) => nameOf(app.id))} onClose={() => setNaming(false)} />}
    </div>
  );
}

async function findApps(mayRead: boolean, signal: AbortSignal): Promise<Found> {
  if (settings.definitions !== null && mayRead) {
    try {
      return { kind: "stored", apps: await listStored(signal) };
    } catch (error) {
      const isRefused = error instanceof ApiError && [401, 403, 404].includes(error.status);
      if (!isRefused) throw error;
      if (error.status === 404) return { kind: "stored", apps: [] };
    }
  }
  return { kind: "visible", apps: await listApps(signal) };
}

function StoredApps({ owner, apps, onNew }: { owner: string | null; apps: readonly ListedApp[]; onNew: (() => void) | null }) {
  const [filter, setFilter] = useNoted("find");
  const [most, setMost] = useState(portion);
  const drafts = useMemo(() => new Set(listKept(owner, "app")), [owner, apps]);
  const all = useMemo(() => addDrafts(apps, drafts), [apps, drafts]);
  const fitting = all.filter((app) => fits(app, filter));
  const shown = fitting.slice(0, most);
  const outcomes = useOutcomes(shown.filter((app) => !app.isNew));
  if (all.length === 0) {
    return (
      <Empty title="No apps yet">
        <p>An app is a GraphQL API over your collections: a schema, and mappings that define where its values come from.</p>
        {onNew !== null && <p><Button kind="primary" onClick={onNew}>New app</Button></p>}
      </Empty>
    );
  }
  const columns: readonly Column<Row>[] = [
    { title: "App", render: (app) => <Name app={app} /> },
    { title: "State", render: (app) => <States app={app} outcome={outcomes.get(app.id)} hasDraft={drafts.has(app.id)} /> },
    { title: "Findings", render: (app) => (app.isNew ? "" : <Findings outcome={outcomes.get(app.id)} />) },
    { title: "Address", render: (app) => <code>{appPath(uriOf(app))}</code> },
    { title: "Ask", render: (app) => (app.isEnabled && !app.isNew ? <a href={address("ask", ...uriOf(app).split("/"))} aria-label={`Ask ${nameOf(app.id)}`}>Ask</a> : "") },
  ];
  return (
    <>
      {all.length > fewEnough && (
        <input class="input apps-filter" type="search" aria-label="Filter apps" placeholder="Filter by name or description" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      )}
      <div class="apps-table"><Table label="Apps" columns={columns} rows={shown} rowKey={(app) => app.id} /></div>
      {fitting.length === 0 && <p class="soft">No app has this text in its name, address or description.</p>}
      {fitting.length > most && <div><Button onClick={() => setMost(most + portion)}>{fitting.length - most} more</Button></div>}
    </>
  );
}

type Row = ListedApp & { readonly isNew: boolean };

/** Apps that only this browser stores come first. */
function addDrafts(apps: readonly ListedApp[], drafts: ReadonlySet<string>): readonly Row[] {
  const stored = new Set(apps.map((app) => app.id));
  const own = [...drafts].filter((id) => !stored.has(id));
  return [
    ...own.map((id) => ({ id, uri: null, description: null, isEnabled: true, isNew: true })),
    ...apps.map((app) => ({ ...app, isNew: false })),
  ];
}

function uriOf({ id, uri }: ListedApp): string {
  return (uri ?? nameOf(id)).replace(/^\/+|\/+$/g, "");
}

function fits({ id, uri, description }: ListedApp, filter: string): boolean {
  const wanted = filter.trim().toLowerCase();
  return [nameOf(id), uri, description].some((text) => text?.toLowerCase().includes(wanted));
}

function Name({ app: { id, description } }: { app: ListedApp }) {
  return (
    <>
      {pathOfApp(id) === null ? <strong>{nameOf(id)}</strong> : <a class="apps-name" href={addressOf(id)}>{nameOf(id)}</a>}
      {description !== null && <p class="soft apps-about"><MarkdownLine text={description} /></p>}
    </>
  );
}

function States({ app, outcome, hasDraft }: { app: Row; outcome: Outcome | undefined; hasDraft: boolean }) {
  return (
    <span class="apps-states">
      <StateChip state={app.isNew ? "new" : stateOf(app.isEnabled, outcome)} />
      {hasDraft && !app.isNew && <StateChip state="unsaved" />}
    </span>
  );
}

function Findings({ outcome }: { outcome: Outcome | undefined }) {
  if (outcome === undefined) return <span class="soft">checking …</span>;
  if ("error" in outcome) return <span class="soft" title={outcome.error.message}>could not be checked</span>;
  const { errors, warnings } = outcome;
  const first = [...errors, ...warnings][0];
  const kind = errors.length > 0 ? "apps-bad" : warnings.length > 0 ? "apps-warned" : "soft";
  return (
    <>
      <span class={kind}>{describeFindings(errors.length, warnings.length)}</span>
      {first !== undefined && <p class="soft apps-about">{first.what}</p>}
    </>
  );
}

function VisibleApps({ apps, isLoggedIn }: { apps: readonly VisibleApp[]; isLoggedIn: boolean }) {
  const [most, setMost] = useState(portion);
  if (apps.length === 0) {
    return (
      <Empty title="There is no app that you may use">
        <p>{isLoggedIn ? "Ask an administrator of the server for a permission." : "Log in at the top right to see yours."}</p>
      </Empty>
    );
  }
  const columns: readonly Column<VisibleApp>[] = [
    { title: "App", render: ({ app }) => <a class="apps-name" href={address("ask", ...app.split("/"))}>{app}</a> },
    { title: "About", render: ({ description }) => <MarkdownLine text={description ?? ""} /> },
    { title: "Address", render: ({ path }) => <code>{path}</code> },
  ];
  return (
    <>
      <div class="apps-table"><Table label="Apps" columns={columns} rows={apps.slice(0, most)} rowKey={({ app }) => idOf(app)} /></div>
      {apps.length > most && <div><Button onClick={() => setMost(most + portion)}>{apps.length - most} more</Button></div>}
      <Notice>
        {isLoggedIn
          ? "These are the apps that you may use. Only administrators, and callers with a rule for it, may read their definitions."
          : "These are the public apps. Log in at the top right to see yours."}
      </Notice>
    </>
  );
}
