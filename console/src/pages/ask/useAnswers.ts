/** Runs queries: one answer and one plan for each tab, and how to cancel them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type As, type Question, ask } from "../../api/graphql.js";
import { explain } from "../../api/plan.js";
import type { AnswerState } from "./AnswerPanel.js";
import type { PlanState } from "./PlanPanel.js";

export interface Answers {
  readonly answer: AnswerState;
  readonly plan: PlanState;
  run(question: Question): void;
  explain(question: Question, run: boolean): void;
  cancel(): void;
}

interface Of {
  readonly answer: AnswerState;
  readonly plan: PlanState;
}

const nothing: Of = { answer: { kind: "none" }, plan: { kind: "none" } };
const mostKept = 5; // answers; each may be 16 MiB

/** The answers of the tab `id` of an app; `scope` is whose they are: another one starts with none. */
export function useAnswers(scope: string, app: string, id: string, as: As | null): Answers {
  const [all, setAll] = useState<ReadonlyMap<string, Of>>(new Map());
  const running = useRef(new Map<string, AbortController>()).current;
  const serial = useRef(0);
  useEffect(() => {
    setAll(new Map());
    return () => {
      for (const one of running.values()) one.abort();
      running.clear();
    };
  }, [scope]);

  const put = (change: Partial<Of>) =>
    setAll((now) => {
      const others = [...now].filter(([key]) => key !== id).slice(1 - mostKept);
      return new Map([...others, [id, { ...(now.get(id) ?? nothing), ...change }]]);
    });
  const start = (what: "answer" | "plan"): AbortController => {
    const key = `${what} ${id}`;
    running.get(key)?.abort();
    const controller = new AbortController();
    running.set(key, controller);
    return controller;
  };

  const run = (question: Question) => {
    const controller = start("answer");
    serial.current += 1;
    const own = serial.current;
    put({ answer: { kind: "asking" } });
    ask(app, question, controller.signal, as).then(
      (answer) => put({ answer: { kind: "ready", answer, serial: own, question } }),
      (error: unknown) => {
        if (!controller.signal.aborted) put({ answer: { kind: "failed", error } });
      },
    );
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
  const cancel = () => {
    const { answer, plan } = all.get(id) ?? nothing;
    for (const what of ["answer", "plan"]) running.get(`${what} ${id}`)?.abort();
    put({
      answer: answer.kind === "asking" ? { kind: "cancelled" } : answer,
      plan: plan.kind === "asking" ? { kind: "none" } : plan,
    });
  };
  return { ...(all.get(id) ?? nothing), run, explain: tell, cancel };
}
