/** What is sent with the query, below it: its variables, which open by themselves where the operation has some, and headers. */

import type { GraphQLSchema, OperationDefinitionNode } from "graphql";
import { useMemo, useState } from "preact/hooks";
import { Editor, type Key } from "../../parts/Editor.js";
import { readHeaders } from "./headers.js";
import { checkVariables, completeVariables, variablesOf } from "./variables.js";
import type { Draft } from "./workspace.js";

interface QueryInputsProps {
  draft: Draft;
  schema: GraphQLSchema | undefined;
  operation: OperationDefinitionNode | null;
  keys: readonly Key[];
  onChange: (change: Pick<Draft, "variables"> | Required<Pick<Draft, "headers">>) => void;
}

type Part = "variables" | "headers";

export function QueryInputs({ draft, schema, operation, keys, onChange }: QueryInputsProps) {
  const variables = useMemo(() => variablesOf(operation, schema), [operation, schema]);
  const findings = useMemo(() => checkVariables(draft.variables, variables), [draft.variables, variables]);
  const text = draft.headers ?? "";
  const { headers, findings: faults, isSecret } = useMemo(() => readHeaders(text), [text]);
  const isWanted = draft.variables.trim() !== "" || (operation?.variableDefinitions?.length ?? 0) > 0;
  const [chosen, setChosen] = useState<Part | "none" | null>(null);
  const open = chosen ?? (isWanted ? "variables" : "none");
  const count = Object.keys(headers).length;
  const fault = faults.find((one) => one.severity === "error");
  return (
    <section class="ask-variables" data-open={open !== "none"}>
      <div class="ask-inputs">
        <Toggle name="Variables" isOpen={open === "variables"} note={findings[0]?.message} onToggle={(isOpen) => setChosen(isOpen ? "variables" : "none")} />
        <Toggle name={count > 0 ? `Headers (${count})` : "Headers"} isOpen={open === "headers"} note={fault?.message} onToggle={(isOpen) => setChosen(isOpen ? "headers" : "none")} />
      </div>
      {open === "variables" && (
        <div class="ask-variables-editor">
          <Editor
            key={draft.id}
            label="Variables"
            language="json"
            value={draft.variables}
            onChange={(value) => onChange({ variables: value })}
            findings={findings}
            keys={keys}
            complete={(before) => completeVariables(before, variables)}
          />
        </div>
      )}
      {open === "headers" && (
        <>
          <div class="ask-variables-editor">
            <Editor key={draft.id} label="Headers" language="text" value={text} onChange={(value) => onChange({ headers: value })} findings={faults} keys={keys} />
          </div>
          <p class="soft ask-inputs-note">
            One header per line, such as <code>X-Tenant: north</code>. Your login is sent anyway: do not write <code>Authorization</code> or <code>Cookie</code> here.{" "}
            {isSecret ? "A value may be a secret: this browser does not store these headers." : "This browser stores them with the tab; links do not contain them."}
          </p>
        </>
      )}
    </section>
  );
}

function Toggle({ name, isOpen, note, onToggle }: { name: string; isOpen: boolean; note: string | undefined; onToggle: (isOpen: boolean) => void }) {
  return (
    <button type="button" class="ask-variables-toggle" aria-expanded={isOpen} data-noted={note === undefined ? undefined : ""} onClick={() => onToggle(!isOpen)}>
      <span class="ask-variables-name">{name}</span>
      {note !== undefined && <span class="ask-variables-note">{note}</span>}
    </button>
  );
}
