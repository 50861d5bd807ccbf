/** The result of a question: the decision, the rule that made it, and why the other rules did not match. */

import type { Consideration, Failure, Said, Verdict } from "../../api/realm.js";
import { JsonTree } from "../../parts/JsonTree.js";
import { Notice } from "../../parts/basic.js";

/** `isUser`: the question names a user. For a caller with roles, the server invents a name. */
export function VerdictView({ verdict, isUser }: { verdict: Verdict; isUser: boolean }) {
  const { allowed, status, reason, method, path, user, roles, rules, others, conditions, notes } = verdict;
  const held = roles.filter((role) => !role.startsWith("$"));
  const who = user === null ? "a caller who is not logged in" : isUser ? user : "a caller";
  return (
    <>
      <Notice kind={allowed ? "good" : "warning"} title={allowed ? "Allowed" : `Denied with ${status}`}>
        <p>{method} <code>{path}</code> by {who}{held.length > 0 && <>, with {held.join(", ")}</>}: {reason}.</p>
      </Notice>
      {notes.map((note) => <Notice key={note}>{note}</Notice>)}
      <h2>Rules for this caller</h2>
      {rules.length === 0 ? <p class="soft">No rule is for these roles.</p> : <RuleSteps label="Rules for this caller" rules={rules} />}
      {others.length > 0 && (
        <>
          <h2>Rules that match, for other roles</h2>
          <RuleSteps label="Rules for other roles" rules={others} />
        </>
      )}
      {Object.keys(conditions).length > 0 && (
        <>
          <h2>Conditions</h2>
          <JsonTree label="Conditions" value={conditions} openLevels={4} />
        </>
      )}
      <details class="access-authorizers">
        <summary>The decision of each authorizer</summary>
        <Authorizers title="Vetoers" said={verdict.vetoers} yes="passes" no="denies" />
        <Authorizers title="Allowers" said={verdict.allowers} yes="approves" no="does not" />
      </details>
    </>
  );
}

function RuleSteps({ label, rules }: { label: string; rules: readonly Consideration[] }) {
  return (
    <ol class="access-steps" aria-label={label}>
      {rules.map((rule, index) => (
        <li key={index} class={rule.outcome.startsWith("decides") ? "access-step access-step-decides" : "access-step"}>
          <div class="access-step-head">
            <strong>{rule.rule}</strong>
            <span class="access-chips">{rule.roles.map((role) => <span key={role} class="chip">{role}</span>)}</span>
            <span>{rule.outcome}</span>
          </div>
          <code>{rule.predicate}</code>
          {rule.failed.length > 0 && (
            <ul class="access-failed">
              {rule.failed.map((one, at) => <li key={at}><code>{one.condition}</code> {describe(one)}</li>)}
            </ul>
          )}
        </li>
      ))}
    </ol>
  );
}

function describe({ truth }: Failure): string {
  return truth === null ? "unknown: a value is missing" : "does not hold";
}

function Authorizers({ title, said, yes, no }: { title: string; said: readonly Said[]; yes: string; no: string }) {
  return (
    <>
      <h3>{title}</h3>
      <ul>{said.map(({ authorizer, allowed, reason }) => <li key={authorizer}><code>{authorizer}</code> {allowed ? yes : no}: {reason}</li>)}</ul>
    </>
  );
}
