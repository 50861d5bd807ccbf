/** The plan of the query, on request; callers without the permission see why there is none. */

import { asApiError } from "../../api/error.js";
import type { Plan } from "../../api/plan.js";
import { settings } from "../../api/settings.js";
import { Button, Empty, ErrorNotice, Loading, Notice } from "../../parts/basic.js";
import { Errors } from "./Errors.js";
import { readErrors } from "../../api/graphql.js";
import { PlanView } from "./PlanView.js";

export type PlanState =
  | { readonly kind: "none" }
  | { readonly kind: "asking" }
  | { readonly kind: "ready"; readonly plan: Plan; readonly query: string }
  | { readonly kind: "failed"; readonly error: unknown };

interface PlanPanelProps {
  state: PlanState;
  /** The query as it is now, to say when the plan is of another. */
  query: string;
  onExplain: (run: boolean) => void;
  onPlace: (line: number, column: number) => void;
}

export function PlanPanel({ state, query, onExplain, onPlace }: PlanPanelProps) {
  if (!("tools" in settings.paths)) {
    return <Empty title="Plans are off here"><p class="soft">The section <code>tools</code> of the configuration turns them on.</p></Empty>;
  }
  return (
    <div class="plan-panel">
      <div class="plan-actions">
        <Button kind="primary" disabled={state.kind === "asking"} onClick={() => onExplain(true)}>Explain</Button>
        <Button disabled={state.kind === "asking"} onClick={() => onExplain(false)}>Explain without running</Button>
      </div>
      {state.kind === "asking" && <Loading what="Explaining" />}
      {state.kind === "none" && (
        <Empty title="How does this query run?">
          <p class="soft">“Explain” runs the query once. It shows the commands, their times, and the index of each. The result of the query is not returned.</p>
        </Empty>
      )}
      {state.kind === "failed" && <Refusal error={state.error} onPlace={onPlace} />}
      {state.kind === "ready" && state.query !== query && <Notice>The query has changed since. This is the plan of the previous query.</Notice>}
      {state.kind === "ready" && <PlanView plan={state.plan} onPlace={onPlace} />}
    </div>
  );
}

function Refusal({ error, onPlace }: { error: unknown; onPlace: PlanPanelProps["onPlace"] }) {
  const { status, details } = asApiError(error);
  if (status === 401 || status === 403 || status === 404) {
    return (
      <Empty title="Plans are for administrators">
        <p class="soft">
          {status === 401 && "Log in as one at the top right. "}An administrator can open them to others with a permission
          for <code>{settings.paths["tools"]}</code>. You can still run queries.
        </p>
      </Empty>
    );
  }
  const errors = readErrors(details);
  if (errors.length > 0) return <Errors errors={errors} onPlace={onPlace} />;
  return <ErrorNotice error={error} title="The plan could not be loaded" />;
}
