/** One rule: read, change, delete; a rule of the configuration is read-only. */

import { useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { type DocumentId, nameOfId } from "../../api/ids.js";
import type { ListedRule } from "../../api/realm.js";
import type { Fields } from "../../api/typed.js";
import { Button, DiscardButton, Empty, Loading, Notice } from "../../parts/basic.js";
import { layOut } from "../../parts/json.js";
import { ConfirmDialog } from "../data/Confirm.js";
import { Conflict } from "../data/Conflict.js";
import { Refusal } from "../data/Refusal.js";
import { isOvertaken } from "../data/useDocument.js";
import { ownText } from "../data/work.js";
import { RuleFields } from "./RuleFields.js";
import { writeForm } from "./ruleForm.js";
import { type RuleWork, useRule } from "./useRule.js";
import { type RuleCheck, useRuleCheck } from "./useRuleCheck.js";

interface RulePanelProps {
  owner: string | null;
  segments: Segments;
  /** undefined: a new one. */
  id: DocumentId | undefined;
  known: readonly string[];
  onChanged: (made: Fields | null) => void;
  onClose: () => void;
}

const nothingFound: RuleCheck = { errors: [], failed: null, about: "" }; // in an untouched form
const mostShown = 100_000; // characters

export function RulePanel(props: RulePanelProps) {
  const { owner, segments, id, onClose } = props;
  const work = useRule(owner, segments, id);
  const { state } = work;
  const isGone = id !== undefined && state.kind === "ready" && state.stored === null && state.draft === null;
  return (
    <section class="data-document access-side" aria-label="Rule">
      <div class="data-head">
        <h2>{id === undefined ? "Add a rule" : nameOfId(id)}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      {state.kind === "loading" && <Loading what="Reading the rule" />}
      {state.kind === "failed" && (
        <>
          <Refusal error={state.error} title="The rule could not be read" />
          <div><Button onClick={work.load}>Try again</Button></div>
        </>
      )}
      {isGone && <Empty title="There is no such rule"><p>It was deleted, or never existed.</p></Empty>}
      {state.kind === "ready" && !isGone && <Opened {...props} work={work} />}
    </section>
  );
}

function Opened({ id, known, onChanged, work }: RulePanelProps & { work: RuleWork }) {
  const { state, form, isChanged, isBehind } = work;
  const text = writeForm(form);
  const check = useRuleCheck(text);
  const [error, setError] = useState<unknown>(null);
  const [isSaving, setSaving] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const stored = state.kind === "ready" ? state.stored : null;
  const isWrong = check.about === text && check.errors.length > 0;
  const cannotSave = !isChanged || isBehind || isSaving || isWrong;
  const save = () => {
    if (cannotSave) return true;
    setSaving(true);
    setError(null);
    work.save().then(onChanged, setError).then(() => setSaving(false), () => setSaving(false));
    return true;
  };
  const forget = (act: () => void) => () => {
    setError(null);
    act();
  };
  return (
    <>
      <div class="data-actions">
        <Button kind="primary" disabled={cannotSave} onClick={save}>{id === undefined ? "Add" : "Save"}</Button>
        {isChanged && <DiscardButton onDiscard={forget(work.discard)} />}
        {stored !== null && <Button kind="danger" onClick={() => setDeleting(true)}>Delete</Button>}
        {isChanged && <span class="chip" role="status">{work.isKept ? "not saved" : "not saved, and this browser cannot keep it"}</span>}
      </div>
      {isBehind && <Conflict what="rule" stored={stored === null ? null : ownText(stored)} mine={layOut(text, mostShown)} onKeepMine={forget(work.keepMine)} onTakeTheirs={forget(work.discard)} />}
      {error !== null && !(isBehind && isOvertaken(error)) && <Refusal error={error} title={id === undefined ? "Not added" : "Not saved"} said={{ 409: "A rule with this name already exists. Nothing was overwritten.", 412: "The rule was changed in the meantime: check it again.", 403: "You may not write rules. What you have typed stays here." }} />}
      {check.failed !== null && <Notice kind="warning">The server could not check the rule. It checks it when you save.</Notice>}
      <RuleFields form={form} isNew={id === undefined} check={isChanged || id !== undefined ? check : nothingFound} known={known} onChange={work.change} onSave={save} />
      {isDeleting && id !== undefined && (
        <ConfirmDialog title="Delete this rule" action="Delete" said={{ 412: "The rule was changed in the meantime: check it again.", 403: "You may not delete rules." }} onConfirm={work.remove} onDone={() => { setDeleting(false); onChanged(null); }} onClose={() => setDeleting(false)}>
          <p>From the next request on, the server rejects what only <strong>{nameOfId(id)}</strong> allows.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

/** A rule of the configuration or a file: change it there. */
export function FixedRule({ rule, onClose }: { rule: ListedRule; onClose: () => void }) {
  return (
    <section class="data-document access-side" aria-label="Rule">
      <div class="data-head">
        <h2>{rule.rule}</h2>
        <Button kind="quiet" onClick={onClose}>Close</Button>
      </div>
      <Notice>This rule is in the configuration (<code>fileAclAuthorizer</code>). Change it there; the server reads it at start.</Notice>
      <dl class="access-fixed">
        <dt>For the roles</dt><dd class="access-chips">{rule.roles.map((role) => <span key={role} class="chip">{role}</span>)}</dd>
        <dt>Predicate</dt><dd><pre>{rule.predicate}</pre></dd>
        <dt>Priority</dt><dd>{rule.priority ?? "none"}</dd>
        {rule.description !== "" && <><dt>Description</dt><dd>{rule.description}</dd></>}
        {rule.mongo !== null && <><dt>Conditions</dt><dd><pre>{layOut(rule.mongo, mostShown)}</pre></dd></>}
      </dl>
    </section>
  );
}
