/** Runs queries: one answer and one plan for each tab, and how to cancel them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type As, type Question, type RequestHeaders, ask } from "../../api/graphql.js";
import { followQuery } from "../../api/live.js";
import { explain } from "../../api/plan.js";
import type { AnswerState } from "./AnswerPanel.js";
import { isFollowing, runLive } from "./liveRun.js";
import type { PlanState } from "./PlanPanel.js";

/** How a query is sent. */
export interface Sending {
  readonly headers: RequestHeaders;
  /** It is followed: each change of its answer comes by itself. */
  readonly isLive: boolean;
}

export interface Answers {
  readonly answer: AnswerState;
  readonly plan: PlanState;
  run(question: Question, sending?: Sending): void;
  explain(question: Question, run: boolean): void;
  cancel(): void;
}

interface Of {
  readonly answer: AnswerState;
  readonly plan: PlanState;
}

const nothing: Of = { answer: { kind: "none" }, plan: { kind: "none" } };
const plain: Sending = { headers: {}, isLive: false };
const mostKept = 5; // answers; each may be 16 MiB

/** The answers of the tab `id` of an app; `scope` is whose they are: another one starts with none. */
export function useAnswers(scope: string, app: string, id: string, as: As | null, ids: readonly string[]): Answers {
  const [all, setAll] = useState<ReadonlyMap<string, Of>>(new Map());
  const running = useRef(new Map<string, AbortController>()).current;
  const live = useRef<string | null>(null);
  const serial = useRef(0);
  useEffect(() => {
    setAll(new Map());
    return () => {
      for (const one of running.values()) one.abort();
      running.clear();
    };
  }, [scope]);
  useEffect(() => {
    for (const [key, one] of [...running].filter(([name]) => !ids.includes(name.split(" ")[1]!))) {
      one.abort(); // its tab is closed
      running.delete(key);
    }
  }, [ids.join()]);

  const putFor = (tab: string, change: (now: Of) => Partial<Of>) =>
    setAll((now) => {
      const others = [...now].filter(([key]) => key !== tab).slice(1 - mostKept);
      const before = now.get(tab) ?? nothing;
      return new Map([...others, [tab, { ...before, ...change(before) }]]);
    });
  const put = (change: Partial<Of>) => putFor(id, () => change);
  const start = (what: "answer" | "plan"): AbortController => {
    const key = `${what} ${id}`;
    running.get(key)?.abort();
    const controller = new AbortController();
    running.set(key, controller);
    return controller;
  };
  const stop = (tab: string) => {
    for (const what of ["answer", "plan"]) running.get(`${what} ${tab}`)?.abort();
    putFor(tab, ({ answer, plan }) => ({
      answer: answer.kind === "asking" ? { kind: "cancelled" } : stopFollowing(answer),
      plan: plan.kind === "asking" ? { kind: "none" } : plan,
    }));
  };

  const run = (question: Question, { headers, isLive }: Sending = plain) => {
    // A browser opens six connections to a host: one live query at a time leaves room for the rest of the page.
    if (isLive && live.current !== null && live.current !== id) stop(live.current);
    if (isLive) live.current = id;
    const controller = start("answer");
    const { signal } = controller;
    serial.current += 1;
    const own = { serial: serial.current, question };
    put({ answer: { kind: "asking" } });
    const fail = (error: unknown) => {
      if (!signal.aborted) put({ answer: { kind: "failed", error } });
    };
    if (isLive) {
      const follow = () => followQuery(app, question, signal, headers);
      runLive({ follow, wait: (ms) => waitFor(ms, signal), onChange: (answer, state) => put({ answer: { kind: "ready", answer, live: state, ...own } }) }, signal).catch(fail);
    } else ask(app, question, signal, as, headers).then((answer) => signal.aborted || put({ answer: { kind: "ready", answer, ...own } }), fail);
  };
  const tell = (question: Question, isRun: boolean) => {
    const controller = start("plan");
    put({ plan: { kind: "asking" } });
    explain(app, question, isRun, controller.signal, as).then(
      (plan) => put({ plan: { kind: "ready", plan, query: question.query } }),
      (error: unknown) => {
        if (!controller.signal.aborted) put({ plan: { kind: "failed", error } });
      },
    );
  };
  return { ...(all.get(id) ?? nothing), run, explain: tell, cancel: () => stop(id) };
}

function stopFollowing(answer: AnswerState): AnswerState {
  return answer.kind === "ready" && answer.live && isFollowing(answer.live) ? { ...answer, live: { ...answer.live, phase: "stopped" } } : answer;
}

function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
