/** An app, the tabs of its queries, and the panel next to them. */

import { OperationTypeNode } from "graphql";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Question, type VisibleApp, appPath } from "../../api/graphql.js";
import { useLooking } from "../../api/looking.js";
import { settings } from "../../api/settings.js";
import type { EditorControl } from "../../parts/Editor.js";
import { LookingBanner } from "../../parts/LookingBanner.js";
import { address } from "../../shell/router.js";
import { AppChoice } from "./AppChoice.js";
import type { Spot } from "./docsModel.js";
import { writeExamples } from "./example.js";
import { type ResultView, readShared, writeShared } from "./link.js";
import { readHeaders } from "./headers.js";
import { allowsLive, isLive, toggleLive } from "./liveDirective.js";
import { isFollowing } from "./liveRun.js";
import { chooseOperation, namesOf, prettify, readOperations } from "./operations.js";
import { type Builder, makeBuilder } from "./queryBuilder.js";
import { SchemaNotice } from "./SchemaNotice.js";
import { Sheet, useMayExplain } from "./Sheet.js";
import { Side, type SideKind } from "./Side.js";
import { TabStrip } from "./TabStrip.js";
import { Toolbar } from "./Toolbar.js";
import { useAnswers } from "./useAnswers.js";
import { spotOf, useSchema } from "./useSchema.js";
import { useWork } from "./useWork.js";
import { makeDraft, mostDrafts } from "./workspace.js";

interface DeskProps {
  app: string;
  apps: readonly VisibleApp[];
  owner: string | null;
  hash: string;
  onApp: (app: string) => void;
}

export function Desk({ app, apps, owner, hash, onApp }: DeskProps) {
  const home = address("ask", ...app.split("/"));
  const [view, setView] = useState<ResultView>("tree");
  const work = useWork(owner, app, { home, hash, view, onView: setView });
  const { draft } = work;
  const as = useLooking();
  const answers = useAnswers(JSON.stringify([owner, as]), app, draft.id, as, work.workspace.drafts.map((one) => one.id));
  const { state: schemaState, again } = useSchema(app, owner, as);
  const schema = schemaState.kind === "ready" ? schemaState.schema : undefined;
  const [side, setSide] = useState<SideKind | null>(null);
  const [way, setWay] = useState<readonly Spot[]>([]);
  const mayExplain = useMayExplain();
  const editor = useRef<EditorControl>(null);
  const builder = useRef<Builder | null>(null);
  const reading = useMemo(() => readOperations(draft.query), [draft.query]);
  const operation = chooseOperation(reading, draft.operation);
  const { query, variables } = draft;
  const isOneOfSeveral = reading.operations.length > 1;
  const name = isOneOfSeveral ? (operation?.name?.value ?? namesOf(reading)[0] ?? null) : null;
  const question: Question = { query, variables, operation: name };
  const mayBeLive = as === null && operation?.operation !== OperationTypeNode.MUTATION && allowsLive(schema) === true;
  const followed = answers.answer.kind === "ready" && isFollowing(answers.answer.live);

  const run = () => {
    if (!query.trim()) return true;
    work.note(draft);
    answers.run(question, {
      headers: readHeaders(draft.headers ?? "").headers,
      isLive: as === null && isLive(operation) && allowsLive(schema) !== false,
    });
    if (mayExplain && view === "plan") answers.explain(question, true);
    return true;
  };
  const explain = (isRun: boolean) => {
    if (!mayExplain) return true;
    setView("plan");
    if (query.trim()) answers.explain(question, isRun);
    return true;
  };
  const tidy = () => {
    if (reading.fault === null && query.trim()) work.change({ query: prettify(query) });
    else editor.current?.focus(); // the editor marks what cannot be read
    return true;
  };
  const examples = useMemo(() => (schema ? writeExamples(schema) : []), [schema]);
  const showExample = (text: string) => {
    work.change({ query: text, variables: "", operation: null, isExample: true });
    answers.run({ query: text, variables: "", operation: null });
  };
  const [first] = examples;
  const isFirstSight = work.workspace.drafts.length === 1 && query === "" && work.entries.length === 0 && readShared(hash) === null;
  useEffect(() => {
    // On the first visit the page shows a query and its answer, unless the user is writing. A query without a limit does not run by itself.
    if (isFirstSight && first?.isSmall === true && !editor.current?.hasFocus()) showExample(first.query);
  }, [first]);
  const keys = [
    { key: "Mod-Enter", run },
    { key: "Mod-Shift-Enter", run: () => explain(true) },
    { key: "Alt-Shift-F", run: tidy },
  ];
  const showDocs = (...names: [string | undefined, string | undefined, string | undefined]) => {
    const spot = spotOf(schema, ...names);
    if (spot === null) return;
    setSide("docs");
    setWay((now) => [...now, spot]);
  };

  return (
    <>
      <div class="ask-head">
        <AppChoice app={app} apps={apps} onApp={onApp} />
        <TabStrip
          drafts={work.workspace.drafts}
          current={draft.id}
          onSelect={work.select}
          onClose={work.close}
          onNew={() => work.open(makeDraft())}
        />
      </div>
      <Toolbar
        reading={reading}
        operation={name}
        isRunning={answers.answer.kind === "asking" || answers.plan.kind === "asking"}
        isFollowing={followed}
        isLive={mayBeLive ? isLive(operation) : null}
        side={side}
        link={() => `${location.origin}${home}#${writeShared({ ...draft, view })}`}
        sent={as === null ? () => ({ url: location.origin + settings.root + appPath(app), question, headers: readHeaders(draft.headers ?? "").headers, user: owner }) : null}
        onOperation={(chosen) => work.change({ operation: chosen })}
        onRun={run}
        onCancel={answers.cancel}
        onPrettify={tidy}
        onLive={() => operation && work.change({ query: toggleLive(query, operation) })}
        onSide={setSide}
      />
      {!work.isKept && <p class="ask-notice soft" role="status">This browser does not store what you type: copy it before you leave.</p>}
      {work.isCrowded && <p class="ask-notice soft" role="status">{`The query is not open: there are ${mostDrafts} tabs. Close one first${!work.waits ? "" : ", and the query of the link opens"}.`}</p>}
      {as !== null && <LookingBanner as={as} />}
      <SchemaNotice state={schemaState} isLoggedIn={owner !== null} isForAnother={as !== null} onAgain={again} />
      <div class={side === null ? "ask-body" : "ask-body ask-body-side"}>
        <Sheet
          draft={draft}
          schema={schema}
          operation={operation}
          answers={answers}
          isLoggedIn={owner !== null}
          keys={keys}
          editor={editor}
          view={view}
          onView={setView}
          examples={examples}
          onExample={showExample}
          onChange={work.change}
          onExplain={explain}
          onShowDocs={showDocs}
        />
        {side !== null && (
          <Side
            side={side}
            schema={schemaState}
            way={way}
            entries={work.entries}
            builder={makeBuilder({ text: query, reading, operation, schema, onChange: (text) => work.change({ query: text }) }, builder)}
            draft={draft}
            place={{ owner, app }}
            onGo={setWay}
            onClose={() => setSide(null)}
            onOpen={(entry) => work.open({ ...makeDraft(entry.query, entry.variables), ...("headers" in entry ? { headers: entry.headers } : {}) })}
            onClear={work.clearHistory}
          />
        )}
      </div>
    </>
  );
}
