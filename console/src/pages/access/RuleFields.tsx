/** The fields of a rule, each with what the server finds wrong with it. */

import type { Finding } from "../../api/tools.js";
import { Button, Field } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { RolesField } from "../../parts/Roles.js";
import { type RuleForm, filterNames, flagNames } from "./ruleForm.js";
import { type RuleCheck, findingsOf, markFindings, otherFindings } from "./useRuleCheck.js";

interface RuleFieldsProps {
  form: RuleForm;
  isNew: boolean;
  check: RuleCheck;
  known: readonly string[];
  onChange: (part: Partial<RuleForm>) => void;
  onSave: () => boolean;
}

const general = ["$authenticated", "$unauthenticated"];
const ownPlaces = ["_id", "description", "predicate", "roles", "role", "priority", ...Object.keys(filterNames).map((name) => `mongo.${name}`)];

export function RuleFields({ form, isNew, check, known, onChange, onSave }: RuleFieldsProps) {
  const keys = [{ key: "Mod-s", run: onSave }];
  const predicate = findingsOf(check, "predicate");
  return (
    <div class="access-form access-rule">
      {isNew && <Field label="Name" value={form.id} onInput={(id) => onChange({ id })} hint="Its _id; without one the server makes it." />}
      <RolesField label="For the roles" roles={form.roles} known={[...known, ...general]} onChange={(roles) => onChange({ roles })} hint="$authenticated: all users who are logged in; $unauthenticated: all callers." />
      <Findings findings={findingsOf(check, "roles")} />
      <div class="field">
        <span class="access-label">Predicate</span>
        <div class="data-filter access-predicate"><Editor label="Predicate" language="text" value={form.predicate} findings={markFindings(predicate)} keys={keys} onChange={(text) => onChange({ predicate: text })} /></div>
        <Findings findings={predicate} />
        <p class="soft">The rule applies to requests for which it is true, such as <code>path-prefix('/notes') and method(GET)</code>.</p>
      </div>
      <div class="access-pair">
        <Field label="Priority" value={form.priority} onInput={(priority) => onChange({ priority })} hint="Rules with a higher priority are checked first." />
        <Field label="Description" value={form.description} onInput={(description) => onChange({ description })} />
      </div>
      <Findings findings={[...findingsOf(check, "priority"), ...findingsOf(check, "description"), ...findingsOf(check, "_id")]} />
      <Conditions form={form} check={check} onChange={onChange} keys={keys} />
      <Findings findings={otherFindings(check, ownPlaces)} isPlaced />
    </div>
  );
}

function Conditions({ form, check, onChange, keys }: Pick<RuleFieldsProps, "form" | "check" | "onChange"> & { keys: readonly { key: string; run: () => boolean }[] }) {
  const { filters, flags } = form;
  const unused = Object.keys(filterNames).filter((name) => !(name in filters));
  const drop = (name: string) => onChange({ filters: Object.fromEntries(Object.entries(filters).filter(([one]) => one !== name)) });
  const toggle = (name: string, isOn: boolean) => onChange({ flags: isOn ? [...flags, name] : flags.filter((one) => one !== name) });
  return (
    <fieldset class="access-conditions">
      <legend>Conditions</legend>
      {Object.entries(filters).map(([name, text]) => (
        <div key={name} class="field">
          <div class="data-head"><code class="access-label">{name}</code><Button kind="quiet" aria-label={`Remove ${name}`} onClick={() => drop(name)}>Remove</Button></div>
          <div class="data-filter"><Editor label={name} language="shell" value={text} findings={markFindings(findingsOf(check, `mongo.${name}`))} keys={keys} onChange={(value) => onChange({ filters: { ...filters, [name]: value } })} /></div>
          <Findings findings={findingsOf(check, `mongo.${name}`)} />
          <p class="soft">{filterNames[name]}</p>
        </div>
      ))}
      {unused.length > 0 && (
        <div class="data-actions">
          <span class="soft">Add</span>
          {unused.map((name) => <Button key={name} kind="quiet" title={filterNames[name]} onClick={() => onChange({ filters: { ...filters, [name]: "{}" } })}>{name}</Button>)}
        </div>
      )}
      {Object.entries(flagNames).map(([name, says]) => (
        <label key={name} class="access-flag">
          <input type="checkbox" checked={flags.includes(name)} onChange={(event) => toggle(name, event.currentTarget.checked)} />
          <span><code>{name}</code>: {says}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Findings({ findings, isPlaced = false }: { findings: readonly Finding[]; isPlaced?: boolean }) {
  if (findings.length === 0) return null;
  return (
    <ul class="access-findings" role="status">
      {findings.map(({ where, what, hint, line }, index) => (
        <li key={index}>
          {isPlaced && <code>{where} </code>}
          {line !== undefined && line > 1 && `Line ${line}: `}
          {what}
          {hint != null && <span class="soft"> {hint}</span>}
        </li>
      ))}
    </ul>
  );
}
