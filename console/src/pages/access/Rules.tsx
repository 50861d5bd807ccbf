/** All rules in the order of evaluation, with one of them or a new one next to the list. */

import { useState } from "preact/hooks";
import { asApiError } from "../../api/error.js";
import { type ListedRule, type Realm, listRules, segmentsOf } from "../../api/realm.js";
import type { Finding } from "../../api/tools.js";
import { type Fields, parseTyped, writeTyped } from "../../api/typed.js";
import { nameOfId } from "../../api/ids.js";
import { Button, Empty, Loading } from "../../parts/basic.js";
import { type Column, Table } from "../../parts/Table.js";
import { go, useNoted } from "../../shell/router.js";
import { Refusal } from "../data/Refusal.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { type Open, addressOf, nothingOpen, readOpen } from "./places.js";
import { FixedRule, RulePanel } from "./RulePanel.js";

type Found = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly rules: readonly ListedRule[] };

const portion = 200;
const filePrefix = "file:"; // rules of files have no id of the database

export function Rules({ owner, realm, hash }: { owner: string | null; realm: Realm; hash: string }) {
  const [found, reload] = useRules();
  const [find, setFind] = useNoted("find");
  const rules = found.kind === "ready" ? found.rules : [];
  const known = [...new Set(rules.flatMap((rule) => rule.roles))].filter((role) => !role.startsWith("$")).sort();
  const open = readOpen(hash);
  const fixed = open.kind === "one" ? rules.find((rule) => rule.source === "file" && keyOf(rule) === open.id) : undefined;
  const path = realm.rules?.path ?? null;
  const close = () => go(addressOf("rules", nothingOpen, find));
  const changed = (made: Fields | null) => {
    reload();
    if (made !== null) go(addressOf("rules", { kind: "one", id: made.get("_id") ?? null }, find));
  };
  return (
    <div class={open.kind === "none" ? "data-documents" : "data-documents data-documents-open"}>
      <div class="data-list access-list">
        <div class="data-pager">
          <input class="input access-find" type="search" aria-label="Find rules by name, role or predicate" placeholder="Find by name, role, predicate" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
          {path !== null && <a class="button button-plain data-insert" href={addressOf("rules", { kind: "new" }, find)}>Add a rule</a>}
        </div>
        <p class="soft access-order">The first rule that matches decides; a rule for a role comes before one for all callers. Of rules with equal priority the one with the highest id wins.</p>
        <List found={found} find={find} open={open} rootRole={realm.rootRole} onRetry={reload} />
      </div>
      {fixed !== undefined ? (
        <FixedRule rule={fixed} onClose={close} />
      ) : open.kind !== "none" && path !== null ? (
        <RulePanel key={open.kind === "new" ? "new" : writeTyped(open.id, 0)} owner={owner} segments={segmentsOf(path)} id={open.kind === "new" ? undefined : open.id} known={known} onChanged={changed} onClose={close} />
      ) : null}
    </div>
  );
}

function useRules(): readonly [Found, () => void] {
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  useCallerEffect((signal) => {
    listRules(signal).then(
      (rules) => setFound({ kind: "ready", rules }),
      (error: unknown) => signal.aborted || setFound({ kind: "failed", error }),
    );
  }, [attempt]);
  return [found, () => setAttempt((count) => count + 1)];
}

/** The key of a rule of a file, after `#`. */
function keyOf(rule: ListedRule): string {
  return `${filePrefix}${rule.rule}`;
}

function openOf(rule: ListedRule): Open {
  return { kind: "one", id: rule.source === "file" ? keyOf(rule) : parseTyped(rule.id) };
}

function List({ found, find, open, rootRole, onRetry }: { found: Found; find: string; open: Open; rootRole: string | null; onRetry: () => void }) {
  const [most, setMost] = useState(portion);
  if (found.kind === "loading") return <Loading what="Reading rules" />;
  if (found.kind === "failed") {
    const isRefused = asApiError(found.error).status === 403;
    return (
      <>
        <Refusal error={found.error} title="The rules could not be read" said={{ 403: `Only the root role${rootRole === null ? "" : `, ${rootRole},`} may read them.` }} />
        {!isRefused && <div><Button onClick={onRetry}>Try again</Button></div>}
      </>
    );
  }
  if (found.rules.length === 0) {
    return <Empty title="No rules yet"><p>Only the root role has permissions now. <a href={addressOf("rules", { kind: "new" })}>Add a rule</a> for other callers, such as <code>path-prefix('/graphql/blog')</code> for <code>$unauthenticated</code>.</p></Empty>;
  }
  const [wanted, shown] = [find.trim().toLowerCase(), open.kind === "one" ? writeTyped(open.id, 0) : null];
  const fitting = found.rules.filter((rule) => [rule.rule, rule.predicate, ...rule.roles].some((text) => text.toLowerCase().includes(wanted)));
  const link = (rule: ListedRule) => {
    const one = openOf(rule);
    const isOpen = one.kind === "one" && writeTyped(one.id, 0) === shown;
    return <a href={addressOf("rules", one, find)} aria-current={isOpen ? "true" : undefined}>{rule.source === "file" ? rule.rule : nameOfId(parseTyped(rule.id))}</a>;
  };
  if (fitting.length === 0) return <Empty title="No rule matches" />;
  return (
    <>
      <Table
        label="Rules"
        rows={fitting.slice(0, most)}
        rowKey={(rule) => `${rule.source} ${rule.id} ${rule.rule}`}
        columns={[
          { title: "Rule", render: link },
          { title: "Roles", render: (rule) => <span class="access-chips">{rule.roles.map((role) => <span key={role} class="chip">{role}</span>)}</span> },
          { title: "Predicate", render: (rule) => <Predicate rule={rule} /> },
          ...(open.kind === "none" ? further : []),
        ]}
      />
      {fitting.length > most && <div><Button kind="quiet" onClick={() => setMost(most + portion * 5)}>{fitting.length - most} more rules</Button></div>}
    </>
  );
}

const further: readonly Column<ListedRule>[] = [
  { title: "Priority", isNumber: true, render: (rule) => rule.priority ?? "" },
  { title: "Conditions", render: (rule) => <span class="soft">{conditionsOf(rule).join(", ")}</span> },
];

function Predicate({ rule }: { rule: ListedRule }) {
  return (
    <>
      <code title={rule.predicate}>{rule.predicate}</code>
      {rule.errors.slice(0, 1).map((one) => <div key={one.where} class="data-wrong">matches nothing: {describe(one)}</div>)}
      {rule.warnings.map((one) => <div key={one.where} class="data-wrong">{describe(one)}</div>)}
    </>
  );
}

function describe({ where, what, hint }: Finding): string {
  return `${where} ${what}${hint ? ` (${hint})` : ""}`;
}

function conditionsOf({ mongo }: ListedRule): readonly string[] {
  const block = mongo === null ? null : (JSON.parse(mongo) as unknown);
  if (typeof block !== "object" || block === null) return [];
  return Object.entries(block).filter(([, value]) => value !== null && value !== false).map(([name]) => name);
}
