/** The versions of an app: who stored them, when, what they changed; any two compared, any of them restored. */

import { useEffect, useState } from "preact/hooks";
import type { Comparison } from "../../api/tools.js";
import { type AppVersion, compareVersions, findPair, hasDefinition, listVersions } from "../../api/versions.js";
import { asApiError } from "../../api/error.js";
import { Button, Dialog, Empty, ErrorNotice, Loading } from "../../parts/basic.js";
import { Table } from "../../parts/Table.js";
import { Differences } from "./Changes.js";

type Loaded<Value> = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly value: Value };
type Pair = readonly [version: number, since: number];

interface HistoryViewProps {
  app: string;
  /** Changes with the stored definition, and with it the versions. */
  etag: string | null;
  isChanged: boolean;
  mayWrite: boolean;
  onRestore: (version: number) => Promise<void>;
}

export function HistoryView({ app, etag, isChanged, mayWrite, onRestore }: HistoryViewProps) {
  const versions = useLoaded((signal) => listVersions(app, signal), [app, etag]);
  const [chosen, setChosen] = useState<Pair | null>(null);
  const [asked, setAsked] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  if (versions.kind === "loading") return <Loading what="Reading the versions" />;
  if (versions.kind === "failed") {
    const isRefused = asApiError(versions.error).status === 403;
    return isRefused ? <Empty title="Versions are for the root role"><p>A version contains what an author has removed since.</p></Empty> : <ErrorNotice error={versions.error} title="The versions could not be read" />;
  }
  const rows = versions.value;
  const [latest] = rows;
  if (latest === undefined) return <Empty title="No versions yet"><p>The first one is recorded when this app is stored, unless <code>graphql.history-versions</code> is 0.</p></Empty>;
  const pair = chosen ?? findPair(rows, latest.version);
  const restore = (version: number) => {
    setAsked(null);
    onRestore(version).catch(setError);
  };
  return (
    <div class="versions">
      <Table
        label="Versions"
        rows={rows}
        rowKey={({ version }) => version}
        columns={[
          { title: "Version", isNumber: true, render: ({ version }) => version },
          { title: "Time", render: ({ at }) => <time dateTime={at}>{new Date(at).toLocaleString()}</time> },
          { title: "Author", render: ({ by }) => by },
          { title: "Change", render: describeChange },
          { title: "Breaks", isNumber: true, render: ({ breaking }) => (breaking === 0 ? "" : <span class="apps-breaking">{breaking} breaking</span>) },
          { title: "Actions", head: <span class="offscreen">Actions</span>, render: (row) => <Actions row={row} pair={findPair(rows, row.version)} mayRestore={mayWrite && row !== latest} onCompare={setChosen} onRestore={() => (isChanged ? setAsked(row.version) : restore(row.version))} /> },
        ]}
      />
      {error !== null && <ErrorNotice error={error} title="The version could not be read" />}
      {pair !== null && <Compared app={app} pair={pair} versions={rows.filter(hasDefinition)} onChoose={setChosen} />}
      {asked !== null && (
        <Dialog title={`Discard your changes for version ${asked}?`} onClose={() => setAsked(null)}>
          <p>The editors have changes that are not saved. Version {asked} replaces them.</p>
          <div class="dialog-actions">
            <Button onClick={() => setAsked(null)}>Cancel</Button>
            <Button kind="danger" onClick={() => restore(asked)}>Discard and continue</Button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function describeChange({ change, parts }: AppVersion) {
  return parts.length === 0 ? change : `${change}: ${parts.join(", ")}`;
}

interface ActionsProps {
  row: AppVersion;
  pair: Pair | null;
  mayRestore: boolean;
  onCompare: (pair: Pair) => void;
  onRestore: () => void;
}

function Actions({ row, pair, mayRestore, onCompare, onRestore }: ActionsProps) {
  if (!hasDefinition(row)) return null;
  return (
    <div class="versions-actions">
      {pair !== null && <Button kind="quiet" aria-label={`What changed in version ${row.version}`} onClick={() => onCompare(pair)}>What changed</Button>}
      {mayRestore && <Button kind="quiet" aria-label={`Restore this version, ${row.version}`} onClick={onRestore}>Restore this version</Button>}
    </div>
  );
}

interface ComparedProps {
  app: string;
  pair: Pair;
  versions: readonly AppVersion[];
  onChoose: (pair: Pair) => void;
}

function Compared({ app, pair: [version, since], versions, onChoose }: ComparedProps) {
  const found = useLoaded<Comparison>((signal) => compareVersions(app, version, since, signal), [app, version, since]);
  const choice = (label: string, value: number, choose: (value: number) => void) => (
    <label>
      {label}{" "}
      <select class="input" value={String(value)} onChange={(event) => choose(Number(event.currentTarget.value))}>
        {versions.map((one) => <option key={one.version} value={String(one.version)}>{one.version}</option>)}
      </select>
    </label>
  );
  return (
    <section aria-label="Difference" aria-live="polite">
      <div class="versions-choice">
        {choice("From version", since, (value) => onChoose([version, value]))}
        {choice("to version", version, (value) => onChoose([value, since]))}
      </div>
      {found.kind === "loading" && <Loading what="Comparing" />}
      {found.kind === "failed" && <ErrorNotice error={found.error} title="The versions could not be compared" />}
      {found.kind === "ready" && (found.value.change === "same" ? <p class="soft">Nothing differs.</p> : <Differences effects={found.value.effects ?? []} diff={found.value.diff} />)}
    </section>
  );
}

function useLoaded<Value>(load: (signal: AbortSignal) => Promise<Value>, inputs: readonly unknown[]): Loaded<Value> {
  const [state, setState] = useState<Loaded<Value>>({ kind: "loading" });
  useEffect(() => {
    const controller = new AbortController();
    setState({ kind: "loading" });
    load(controller.signal).then(
      (value) => setState({ kind: "ready", value }),
      (error: unknown) => controller.signal.aborted || setState({ kind: "failed", error }),
    );
    return () => controller.abort();
  }, inputs);
  return state;
}
