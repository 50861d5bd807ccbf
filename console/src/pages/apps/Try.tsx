/** A query against the definition in the editors; nothing is stored. */

import type { GraphQLSchema } from "graphql";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AppId } from "../../api/apps.js";
import { keptKey, readKept } from "../../api/kept.js";
import { useKeeping } from "../../api/keeping.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { type As, tryDraft } from "../../api/tools.js";
import { isRecord } from "../../api/error.js";
import { Button, Field, Notice } from "../../parts/basic.js";
import { Editor, type EditorControl } from "../../parts/Editor.js";
import { Splitter } from "../../parts/Splitter.js";
import { AnswerPanel, type AnswerState, type AnswerView } from "../ask/AnswerPanel.js";
import { writeExamples } from "../ask/example.js";
import { readDraftSchema } from "./draftSchema.js";
import type { Check } from "./useCheck.js";

type Who = "me" | "roles" | "user";
interface Attempt {
  readonly query: string;
  readonly variables: string;
  readonly who: Who;
  readonly roles: string;
  readonly user: string;
}

const noAttempt: Attempt = { query: "", variables: "", who: "me", roles: "", user: "" };

export function Try({ owner, id, definition, check }: { owner: string | null; id: AppId; definition: string; check: Check }) {
  const { login } = useStore(sessionState);
  const [attempt, change] = useAttempt(owner, id);
  const [answer, setAnswer] = useState<AnswerState>({ kind: "none" });
  const [view, setView] = useState<AnswerView>("tree");
  const editor = useRef<EditorControl | null>(null);
  const running = useRef<AbortController | null>(null);
  const as = useMemo(() => asWhom(attempt), [attempt.who, attempt.roles, attempt.user]);
  const schema = useDraftSchema(check, as);
  const isBroken = (check.checked?.errors.length ?? 0) > 0 && check.about === definition;
  useEffect(() => {
    if (schema !== undefined) change(({ query }) => (query === "" ? { query: writeExamples(schema)[0]?.query ?? "{ __typename }\n" } : {}));
  }, [schema]);
  useEffect(() => () => running.current?.abort(), []);

  const run = async () => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setAnswer({ kind: "asking" });
    try {
      const got = await tryDraft(definition, attempt, as, controller.signal);
      setAnswer({ kind: "ready", answer: got, serial: Date.now(), question: { ...attempt, operation: null } });
    } catch (error) {
      if (!controller.signal.aborted) setAnswer({ kind: "failed", error });
    }
  };
  const runNow = useRef(run);
  runNow.current = run;
  const keys = useMemo(() => [{ key: "Mod-Enter", run: () => (void runNow.current(), true) }], []);
  return (
    <div class="try">
      <div class="try-bar">
        <Button kind="primary" onClick={() => void run()} title="Ctrl-Enter">Run</Button>
        <Whom attempt={attempt} onChange={(changed) => change(() => changed)} />
        <span class="soft">Runs against your unsaved definition. Nothing is stored.</span>
      </div>
      {isBroken && <Notice kind="warning">The definition is not valid yet; its findings show why.</Notice>}
      <Splitter
        label="Share of the query"
        first={
          <div class="try-question">
            <Editor label="Query" language="graphql" value={attempt.query} {...(schema ? { schema } : {})} keys={keys} control={editor} onChange={(query) => change(() => ({ query }))} />
            <details class="try-variables" open={attempt.variables !== ""}>
              <summary>Variables</summary>
              <Editor label="Variables" language="json" value={attempt.variables} keys={keys} onChange={(variables) => change(() => ({ variables }))} />
            </details>
          </div>
        }
        second={<AnswerPanel state={answer} fileName="draft" isLoggedIn={login !== null} onPlace={(line, column) => editor.current?.reveal(line, column)} isUnused={false} view={view} onView={setView} />}
      />
    </div>
  );
}

function Whom({ attempt, onChange }: { attempt: Attempt; onChange: (changed: Partial<Attempt>) => void }) {
  return (
    <div class="try-whom">
      <label>
        As{" "}
        <select class="input" value={attempt.who} onChange={(event) => onChange({ who: event.currentTarget.value as Who })}>
          <option value="me">myself</option>
          <option value="roles">a caller with roles</option>
          <option value="user">a user</option>
        </select>
      </label>
      {attempt.who === "roles" && <Field label="Roles" placeholder="such as editor, reader" value={attempt.roles} onInput={(roles) => onChange({ roles })} />}
      {attempt.who === "user" && <Field label="User" value={attempt.user} onInput={(user) => onChange({ user })} />}
    </div>
  );
}

function asWhom({ who, roles, user }: Attempt): As {
  if (who === "roles") return { roles: roles.split(",").map((role) => role.trim()).filter((role) => role !== "") };
  return who === "user" && user.trim() !== "" ? { user: user.trim() } : {};
}

type Change = (make: (now: Attempt) => Partial<Attempt>) => void;

/** Restores the last attempt after the page was left. Changes are made to the latest one: the user types while answers arrive. */
function useAttempt(owner: string | null, id: AppId): readonly [Attempt, Change] {
  const key = keptKey(owner, "app-try", id);
  const [attempt, setAttempt] = useState<Attempt>(() => {
    const kept = readKept(key);
    const isWhole = isRecord(kept) && Object.keys(noAttempt).every((name) => typeof kept[name] === "string");
    return isWhole ? (kept as unknown as Attempt) : noAttempt;
  });
  useKeeping(key, attempt === noAttempt ? null : attempt, () => undefined); // each window tries its own
  return [attempt, (make) => setAttempt((now) => ({ ...now, ...make(now) }))];
}

/** The schema of the last valid definition, as the chosen caller sees it. */
function useDraftSchema({ checked, about }: Check, as: As): GraphQLSchema | undefined {
  const [schema, setSchema] = useState<GraphQLSchema>();
  const isGood = checked !== null && checked.errors.length === 0;
  useEffect(() => {
    if (!isGood) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(() => {
      void readDraftSchema(about, as, controller.signal).then((found) => found !== null && setSchema(found));
    }, 300);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [isGood, about, as]);
  return schema;
}
