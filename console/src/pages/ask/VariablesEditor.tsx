/** The variables of the query, below it; they open by themselves where the operation has some. */

import type { GraphQLSchema, OperationDefinitionNode } from "graphql";
import { useMemo, useState } from "preact/hooks";
import { Editor, type Key } from "../../parts/Editor.js";
import { checkVariables, completeVariables, variablesOf } from "./variables.js";
import type { Draft } from "./workspace.js";

interface VariablesProps {
  draft: Draft;
  schema: GraphQLSchema | undefined;
  operation: OperationDefinitionNode | null;
  keys: readonly Key[];
  onChange: (variables: string) => void;
}

export function VariablesEditor({ draft, schema, operation, keys, onChange }: VariablesProps) {
  const variables = useMemo(() => variablesOf(operation, schema), [operation, schema]);
  const findings = useMemo(() => checkVariables(draft.variables, variables), [draft.variables, variables]);
  const isWanted = draft.variables.trim() !== "" || (operation?.variableDefinitions?.length ?? 0) > 0;
  const [chosen, setChosen] = useState<boolean | null>(null);
  const isOpen = chosen ?? isWanted;
  return (
    <section class="ask-variables" data-open={isOpen}>
      <button type="button" class="ask-variables-toggle" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        Variables
        {findings.length > 0 && <span class="ask-variables-note">{findings[0]?.message}</span>}
      </button>
      {isOpen && (
        <div class="ask-variables-editor">
          <Editor
            key={draft.id}
            label="Variables"
            language="json"
            value={draft.variables}
            onChange={onChange}
            findings={findings}
            keys={keys}
            complete={(before) => completeVariables(before, variables)}
          />
        </div>
      )}
    </section>
  );
}
