/** The answer: status and figures, errors, and the data as tree, table or text. */

import type { ComponentChildren, FunctionComponent } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Answer, type Question, isObject } from "../../api/graphql.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { CopyButton, Button, Empty, ErrorNotice, Loading, Notice, download } from "../../parts/basic.js";
import { JsonTree } from "../../parts/JsonTree.js";
import { layOut } from "../../parts/json.js";
import { writeCsv } from "./answerCsv.js";
import { AnswerTable } from "./AnswerTable.js";
import { type ChartList, findCharts } from "./chart.js";
import { Errors } from "./Errors.js";
import { countOf, describeBytes, describeMs } from "./figures.js";
import { findLists } from "./lists.js";
import type { ResultView } from "./link.js";
import type { Live } from "./liveRun.js";

export type AnswerState =
  | { readonly kind: "none" }
  | { readonly kind: "asking" }
  | { readonly kind: "ready"; readonly answer: Answer; readonly serial: number; readonly question: Question; readonly live?: Live }
  | { readonly kind: "cancelled" }
  | { readonly kind: "failed"; readonly error: unknown };

const fewCharacters = 20_000; // of an answer that is opened down to its relations
const longestText = 200_000; // characters that are shown as text

export type AnswerView = Exclude<ResultView, "plan">;
const ways: readonly { key: AnswerView; label: string }[] = [
  { key: "tree", label: "Tree" },
  { key: "table", label: "Table" },
  { key: "chart", label: "Chart" },
  { key: "text", label: "Text" },
];

interface AnswerPanelProps {
  state: AnswerState;
  fileName: string;
  isLoggedIn: boolean;
  onPlace: (line: number, column: number) => void;
  /** No query has been written yet. */
  isUnused: boolean;
  view: AnswerView;
  onView: (view: AnswerView) => void;
}

export function AnswerPanel({ state, isUnused, ...rest }: AnswerPanelProps) {
  switch (state.kind) {
    case "none":
      return <NoAnswer isUnused={isUnused} />;
    case "asking":
      return <Loading what="Waiting for the answer" />;
    case "cancelled":
      return <Empty title="Cancelled"><p class="soft">The request was cancelled. The query has not changed.</p></Empty>;
    case "failed":
      return <ErrorNotice error={state.error} title="There is no answer" />;
    case "ready":
      return <Ready key={state.serial} answer={state.answer} live={state.live} {...rest} />;
  }
}

function NoAnswer({ isUnused }: Pick<AnswerPanelProps, "isUnused">) {
  return (
    <Empty title="No answer yet">
      {isUnused ? <p>Write a query, or choose an example. Docs lists what you can query.</p>
        : <p>Run the query with <kbd>Ctrl</kbd> <kbd>Enter</kbd> (on a Mac <kbd>⌘</kbd> <kbd>Enter</kbd>).</p>}
    </Empty>
  );
}

type ReadyProps = Omit<AnswerPanelProps, "state" | "isUnused"> & { answer: Answer; live: Live | undefined };

function Ready({ answer, live, fileName, isLoggedIn, onPlace, view, onView }: ReadyProps) {
  const [reveal, setReveal] = useState<{ path: readonly (string | number)[]; serial: number }>();
  const { status, text, body, errors } = answer;
  const isBare = text === "" || ([401, 403].includes(status) && errors.some(({ code }) => code === "unauthenticated" || code === "forbidden"));
  const charts = useMemo(() => findCharts(isObject(body) ? body["data"] : body), [body]);
  // The next answer of a live query may have no numbers.
  const way = view === "chart" && charts.length === 0 ? "table" : view;
  const lists = useMemo(() => (way === "table" ? findLists(isObject(body) ? body["data"] : body) : []), [body, way]);
  const [chosen, choose] = useState(0);
  const list = lists[chosen] ?? lists[0];
  const goTo = (path: readonly (string | number)[]) => {
    onView("tree");
    setReveal({ path: ["data", ...path], serial: (reveal?.serial ?? 0) + 1 });
  };
  return (
    <div class="answer">
      {live !== undefined && <LiveBar live={live} />}
      <Figures answer={answer} isLive={live !== undefined}>
        <div class="answer-ways" role="group" aria-label="Show the answer as">
          {ways.filter(({ key }) => key !== "chart" || charts.length > 0).map(({ key, label }) => (
            <button key={key} type="button" class="answer-way" aria-pressed={key === way} onClick={() => onView(key)}>{label}</button>
          ))}
        </div>
        <CopyButton text={text} />
        {list !== undefined && <Button kind="quiet" onClick={() => download(`${fileName}.csv`, writeCsv(list.rows), "text/csv")}>Download CSV</Button>}
        <Button kind="quiet" onClick={() => download(`${fileName}.json`, text)}>{list === undefined ? "Download" : "JSON"}</Button>
      </Figures>
      {isBare && <Refused status={status} isLoggedIn={isLoggedIn} />}
      {live !== undefined && live.errors.length > 0 && <Errors errors={live.errors} onPlace={onPlace} onPath={goTo} />}
      {!isBare && <Errors errors={errors} onPlace={onPlace} onPath={goTo} />}
      {!isBare && <Body way={body === undefined ? "text" : way} answer={answer} charts={charts} reveal={reveal}><AnswerTable lists={lists} chosen={chosen} onChoose={choose} /></Body>}
    </div>
  );
}

interface BodyProps {
  way: AnswerView;
  answer: Answer;
  charts: readonly ChartList[];
  reveal: { path: readonly (string | number)[]; serial: number } | undefined;
  /** The table. */
  children: ComponentChildren;
}

function Body({ way, answer: { body, text }, charts, reveal, children }: BodyProps) {
  if (way === "chart") return <LazyChart charts={charts} />;
  if (way === "text") return <Text text={text} isJson={body !== undefined} />;
  if (way === "table") return <>{children}</>;
  return <JsonTree label="Answer" value={body} openLevels={text.length < fewCharacters ? 6 : 4} {...(reveal ? { reveal } : {})} />;
}

/** The chart is loaded when the user opens it. */
function LazyChart({ charts }: { charts: readonly ChartList[] }) {
  const [loaded, setLoaded] = useState<{ Chart: FunctionComponent<{ charts: readonly ChartList[] }> } | { failed: unknown } | null>(null);
  useEffect(() => {
    import("./AnswerChart.js").then(({ default: Chart }) => setLoaded({ Chart }), (failed: unknown) => setLoaded({ failed }));
  }, []);
  if (loaded === null) return <Loading what="Loading the chart" />;
  return "failed" in loaded ? <ErrorNotice error={loaded.failed} title="The chart cannot be loaded" /> : <loaded.Chart charts={charts} />;
}

const phases: Readonly<Record<Live["phase"], string>> = {
  open: "Live",
  waiting: "Connection lost, connecting again …",
  stopped: "Stopped",
  ended: "Ended by the server",
};

/** How a live query is; the dot pulses with each answer. */
function LiveBar({ live: { phase, count, at } }: { live: Live }) {
  return (
    <div class="answer-live" data-phase={phase}>
      <span key={count} class="answer-pulse" aria-hidden="true" />
      <strong role="status">{phases[phase]}</strong>
      <span class="answer-live-count">{countOf(count, "answer")}</span>
      <span class="soft">the latest at <time dateTime={new Date(at).toISOString()}>{new Date(at).toLocaleTimeString()}</time></span>
    </div>
  );
}

function Figures({ answer: { status, ms, bytes, errors }, isLive, children }: { answer: Answer; isLive: boolean; children: ComponentChildren }) {
  const kind = status !== 200 ? "bad" : errors.length > 0 ? "partly" : "good";
  return (
    <div class="answer-bar">
      {/* Each answer of a live query would be read out. */}
      <p class="answer-figures" role={isLive ? undefined : "status"}>
        <span class={`answer-status answer-status-${kind}`}>{status}</span>
        {!isLive && <span>{describeMs(ms)}</span>}
        <span>{describeBytes(bytes)}</span>
      </p>
      <div class="answer-actions">{children}</div>
    </div>
  );
}

/** An answer that says no more than its status. */
function Refused({ status, isLoggedIn }: { status: number; isLoggedIn: boolean }) {
  const { login } = useStore(sessionState);
  if (status === 401 && login !== null) return <Notice title="You are logged in again">Run the query again: it is kept.</Notice>;
  if (status === 401) {
    return (
      <Notice kind="warning" title={isLoggedIn ? "Your login has ended" : "This app needs a login"}>
        Log in at the top right, then run the query again: it is kept.
      </Notice>
    );
  }
  if (status === 403) return <Notice kind="warning" title="Not allowed">You do not have the permission to query this app. Ask an administrator of the server for it.</Notice>;
  return <Notice kind="warning" title={`The server answered ${status}`}>The response has no body.</Notice>;
}

function Text({ text, isJson }: { text: string; isJson: boolean }) {
  const shown = isJson ? layOut(text, longestText) : text.slice(0, longestText);
  return (
    <div class="answer-text">
      {text.length > longestText && (
        <Notice>The first {describeBytes(longestText)} of {describeBytes(text.length)} are shown. Copy and download have all of it.</Notice>
      )}
      <pre tabIndex={0} aria-label="Answer as text">{shown}</pre>
    </div>
  );
}
