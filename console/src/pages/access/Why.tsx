/** Why is this denied? A possible request, and the decision of the server; nothing is executed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Asked, type Verdict, explainRequest } from "../../api/realm.js";
import { Button, Empty, Field, Loading } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { go } from "../../shell/router.js";
import { Refusal } from "../data/Refusal.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { readQuestion, writeQuestion } from "./question.js";
import { VerdictView } from "./Verdict.js";
import { type Chosen, WhomField, asOf, isComplete } from "./Whom.js";

type Answer = { readonly kind: "none" | "asking" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly verdict: Verdict };

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] as const;

export function Why({ hash }: { hash: string }) {
  const [question, setQuestion] = useState(() => readQuestion(hash));
  const [body, setBody] = useState("");
  const [answer, setAnswer] = useState<Answer>({ kind: "none" });
  const [asked, setAsked] = useState<(Asked & { chosen: Chosen }) | null>(() => (question.path === "" ? null : { ...question, body: "" }));
  const written = useRef(hash);
  useEffect(() => {
    if (hash === written.current) return;
    written.current = hash; // another link was followed
    const next = readQuestion(hash);
    setQuestion(next);
    setAsked(next.path === "" ? null : { ...next, body: "" });
    setAnswer({ kind: "none" });
  }, [hash]);
  useCallerEffect((signal) => {
    if (asked === null) return;
    const { chosen, ...request } = asked;
    setAnswer({ kind: "asking" });
    explainRequest(request, asOf(chosen), signal).then(
      (verdict) => setAnswer({ kind: "ready", verdict }),
      (error: unknown) => signal.aborted || setAnswer({ kind: "failed", error }),
    );
  }, [asked]);
  const { method, path, query, chosen } = question;
  const hasBody = ["POST", "PUT", "PATCH"].includes(method);
  const ask = (event: Event) => {
    event.preventDefault();
    const link = writeQuestion(question);
    written.current = link.slice(link.indexOf("#") + 1);
    go(link, { replace: true });
    const [plain = "", ...parameters] = path.trim().split("?");
    setAsked({ method, path: plain, query: parameters.length > 0 ? parameters.join("?") : query, body: hasBody ? body : "", chosen });
  };
  return (
    <div class="access-why">
      <form class="access-form access-question" aria-label="Request" onSubmit={ask}>
        <div class="access-request">
          <div class="field">
            <label for="why-method">Method</label>
            <select id="why-method" class="input" value={method} onChange={(event) => setQuestion({ ...question, method: event.currentTarget.value })}>
              {methods.map((one) => <option key={one}>{one}</option>)}
            </select>
          </div>
          <Field label="Path" required placeholder="/graphql/blog" value={path} onInput={(text) => setQuestion({ ...question, path: text })} />
        </div>
        <WhomField label="Asked by" chosen={chosen} onChange={(next) => setQuestion({ ...question, chosen: next })} />
        {hasBody && (
          <div class="field">
            <span class="access-label">Body</span>
            <div class="data-filter"><Editor label="Body" language="json" value={body} onChange={setBody} /></div>
            <p class="soft">JSON, for predicates that read the body; may be empty.</p>
          </div>
        )}
        <div class="data-actions"><Button kind="primary" type="submit" disabled={!path.startsWith("/") || !isComplete(chosen)}>Why?</Button><span class="soft">The request is not executed.</span></div>
      </form>
      <div class="access-verdict" aria-live="polite">
        {answer.kind === "none" && <Empty title="Is this request allowed?"><p>Enter a request and its caller. The answer lists each rule that was checked, and why it did not match.</p></Empty>}
        {answer.kind === "asking" && <Loading what="Asking" />}
        {answer.kind === "failed" && <Refusal error={answer.error} title="The question could not be answered" said={{ 403: "Explanations are for the root role.", 404: "There is no such user." }} />}
        {answer.kind === "ready" && <VerdictView verdict={answer.verdict} isUser={asked?.chosen.who === "user"} />}
      </div>
    </div>
  );
}
