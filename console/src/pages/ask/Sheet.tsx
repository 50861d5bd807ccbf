/** One query: its text with its variables, and what came of it. */

import type { GraphQLSchema, OperationDefinitionNode } from "graphql";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useRights } from "../../api/rights.js";
import { pathOf, settings } from "../../api/settings.js";
import { Editor, type EditorControl, type Key } from "../../parts/Editor.js";
import { Splitter } from "../../parts/Splitter.js";
import { Tabs } from "../../parts/Tabs.js";
import { AnswerPanel, type AnswerView } from "./AnswerPanel.js";
import type { Example } from "./example.js";
import type { ResultView } from "./link.js";
import { PlanPanel } from "./PlanPanel.js";
import { QueryInputs } from "./QueryInputs.js";
import type { Answers } from "./useAnswers.js";
import { type Draft, titleOf } from "./workspace.js";

interface SheetProps {
  draft: Draft;
  schema: GraphQLSchema | undefined;
  operation: OperationDefinitionNode | null;
  answers: Answers;
  isLoggedIn: boolean;
  keys: readonly Key[];
  editor: { current: EditorControl | null };
  view: ResultView;
  onView: (view: ResultView) => void;
  examples: readonly Example[];
  onExample: (query: string) => void;
  onChange: (change: Partial<Omit<Draft, "id">>) => void;
  onExplain: (isRun: boolean) => void;
  onShowDocs: (field: string | undefined, type: string | undefined, parentType: string | undefined) => void;
}

const answerTab = { key: "answer" as const, label: "Answer" };
const planTab = { key: "plan" as const, label: "Plan" };
const planned = "tools" in settings.paths ? [pathOf("tools", "plan")] : [];

/** Whether the caller may have queries explained. */
export function useMayExplain(): boolean {
  const rights = useRights(planned);
  return planned.some((path) => rights.may("POST", path));
}

export function Sheet(props: SheetProps) {
  const { draft, schema, operation, answers, isLoggedIn, keys, editor, view, onView, examples, onExample, onChange, onExplain, onShowDocs } = props;
  const mayExplain = useMayExplain();
  const shownResult = mayExplain && view === "plan" ? "plan" : "answer";
  const answerView = useRef<AnswerView>("tree"); // what the tab Answer goes back to
  if (view !== "plan") answerView.current = view;
  const place = (line: number, column: number) => editor.current?.reveal(line, column);
  const isUnused = !draft.query.trim();
  const isFresh = isUnused || draft.isExample === true;
  const state = answers.answer;
  const isOld = state.kind === "ready" && (state.question.query !== draft.query || state.question.variables !== draft.variables);
  // A large answer is drawn once, not with every key.
  const shownAnswer = useMemo(
    () => <AnswerPanel state={answers.answer} fileName={titleOf(draft)} isLoggedIn={isLoggedIn} onPlace={place} isUnused={isUnused} view={answerView.current} onView={onView} />,
    [answers.answer, isLoggedIn, isUnused, answerView.current],
  );
  const results = useRef<HTMLDivElement>(null);
  const isAsking = answers.answer.kind === "asking" || answers.plan.kind === "asking";
  useEffect(() => {
    // On narrow screens the result is below the query; an example, which the page may run by itself, moves nothing.
    if (isAsking && draft.isExample !== true && matchMedia("(max-width: 44rem)").matches) results.current?.scrollIntoView({ block: "start" });
  }, [isAsking]);
  const query = (
    <div class="ask-query" id="ask-query" role="tabpanel" aria-label={titleOf(draft)}>
      <div class="ask-editor">
        <Editor
          key={draft.id}
          label="Query"
          language="graphql"
          value={draft.query}
          onChange={(text) => onChange({ query: text })}
          keys={keys}
          control={editor}
          onShowDocs={onShowDocs}
          {...(schema ? { schema } : {})}
        />
      </div>
      <QueryInputs draft={draft} schema={schema} operation={operation} keys={keys} onChange={onChange} />
    </div>
  );
  return (
    <Splitter
      label="Width of the query"
      first={query}
      second={
        <div class="ask-results" ref={results}>
          <Tabs label="Result" tabs={mayExplain ? [answerTab, planTab] : [answerTab]} selected={shownResult} onSelect={(key) => onView(key === "plan" ? "plan" : answerView.current)}>
            {isFresh && examples.length > 0 && <Examples examples={examples} shown={draft.query} onExample={onExample} />}
            {shownResult === "answer" && isOld && <p class="answer-old" role="status">The query has changed since. This is the answer to the previous one.</p>}
            {shownResult === "answer" ? shownAnswer : <PlanPanel state={answers.plan} query={draft.query} onExplain={onExplain} onPlace={place} />}
          </Tabs>
        </div>
      }
    />
  );
}

function Examples({ examples, shown, onExample }: { examples: readonly Example[]; shown: string; onExample: (query: string) => void }) {
  return (
    <div class="ask-examples" role="group" aria-label="Examples">
      <span class="soft">Examples</span>
      {examples.map(({ title, query }) => <button key={title} type="button" class="ask-example" aria-pressed={query === shown} onClick={() => onExample(query)}>{title}</button>)}
    </div>
  );
}
