/** The tools for one definition: its head, its tabs, and messages about saving. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type AppId, nameOf, pathOfApp } from "../../api/apps.js";
import { advicePath } from "../../api/advice.js";
import { inferPath } from "../../api/infer.js";
import { historyPath, readVersionOf } from "../../api/versions.js";
import { useRights } from "../../api/rights.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { checkDefinition } from "../../api/tools.js";
import { asApiError } from "../../api/error.js";
import { Notice } from "../../parts/basic.js";
import { Tabs } from "../../parts/Tabs.js";
import { go } from "../../shell/router.js";
import { AdviceView } from "./AdviceView.js";
import { BenchHead } from "./BenchHead.js";
import { Changes } from "./Changes.js";
import { Conflict } from "./Conflict.js";
import { Definition } from "./Definition.js";
import { ConfirmBreaking, ConfirmDelete } from "./Dialogs.js";
import { HistoryView } from "./HistoryView.js";
import { MatrixView } from "./MatrixView.js";
import { NotSaved } from "./NotSaved.js";
import { type TabKey, addressOf } from "./places.js";
import { newVersion } from "./template.js";
import { Try } from "./Try.js";
import { type Check, useCheck } from "./useCheck.js";
import { type Work, type WorkState, isOvertaken } from "./useWork.js";
import { type Version, haveSameTexts, writeDefinition, writePlain } from "./work.js";

type Saving = { readonly kind: "idle" | "saving" | "saved" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "breaking"; readonly effects: readonly string[]; readonly definition: string };

export interface BenchProps {
  owner: string | null;
  id: AppId;
  work: Work;
  state: Extract<WorkState, { kind: "ready" }>;
  /** In the address, so that a reload, Back and a link show the same. */
  tab: TabKey;
  onDeleted: () => void;
}

export function Bench({ owner, id, work, state, tab, onDeleted }: BenchProps) {
  const { stored, mine } = state;
  const { login } = useStore(sessionState);
  const setTab = (next: TabKey) => go(addressOf(id, next));
  const [saving, setSaving] = useState<Saving>({ kind: "idle" });
  const [isDeleting, setDeleting] = useState(false);
  const restored = useRef<number | null>(null);
  const definition = useMemo(() => writeDefinition(id, mine), [id, mine]);
  const check = useCheck(definition, JSON.stringify([stored?.etag, login?.name]));
  const isChanged = stored === null || !haveSameTexts(mine, stored);
  const isOther = isChanged && (stored?.etag ?? null) !== mine.etag;
  const path = pathOfApp(id) ?? "";
  const rights = useRights([path, advicePath, inferPath, historyPath]);
  const restore = async (version: number) => {
    await work.restore(await readVersionOf(nameOf(id), version));
    restored.current = version;
    setSaving({ kind: "idle" });
    setTab("changes");
  };
  const [shownField, setShownField] = useState<{ readonly field: string } | null>(null);
  useLeaveQuestion(!haveSameTexts(mine, stored ?? newVersion));
  useFreshness(work);

  const put = async (json: string) => {
    setSaving({ kind: "saving" });
    try {
      await work.save(json);
      restored.current = null;
      setSaving({ kind: "saved" });
    } catch (error) {
      setSaving(isOvertaken(error) ? { kind: "idle" } : { kind: "failed", error });
    }
  };
  const save = async () => {
    if (!isChanged || isOther || saving.kind === "saving") return;
    setSaving({ kind: "saving" });
    try {
      const { json, breaking } = await prepare(id, mine, definition);
      if (breaking.length > 0) setSaving({ kind: "breaking", effects: breaking, definition: json });
      else await put(json);
    } catch (error) {
      setSaving({ kind: "failed", error });
    }
  };
  const saveNow = useRef(save);
  saveNow.current = save;
  const keys = useMemo(() => [{ key: "Mod-s", run: () => (void saveNow.current(), true) }], []);
  const change = (part: "schema" | "mappings" | "descriptor", text: string) => {
    if (saving.kind === "saved" || saving.kind === "failed") setSaving({ kind: "idle" });
    work.change(part, text);
  };
  return (
    <div class="bench" onKeyDown={(event) => pressSave(event, save)}>
      <BenchHead
        name={nameOf(id)}
        version={mine}
        stored={stored}
        check={check}
        isChanged={isChanged}
        isSaving={saving.kind === "saving"}
        canSave={isChanged && !isOther}
        collections={rights.may("POST", inferPath) ? `${addressOf(id)}#collections` : null}
        mayWrite={rights.may("PUT", path)}
        mayDelete={rights.may("DELETE", path)}
        onSave={() => void save()}
        onDiscard={() => { restored.current = null; work.discard(); }}
        onDelete={() => setDeleting(true)}
      />
      <div class="bench-notices">
        {isOther && <Conflict stored={stored} mine={mine} onKeepMine={work.keepMine} onTakeTheirs={work.discard} />}
        {saving.kind === "failed" && <NotSaved error={saving.error} />}
        {saving.kind === "saved" && !isChanged && <Notice kind="good">Saved.</Notice>}
        {restored.current !== null && isChanged && <Notice>{`The editors have version ${restored.current}. Check what clients would notice, then save it.`}</Notice>}
        {!work.isKept && <Notice kind="warning">This browser has no room for unsaved work: save it before you leave the page.</Notice>}
      </div>
      <Tabs label="Views of the app" tabs={tabsFor(check, isChanged, { history: JSON.parse(id) === nameOf(id) && rights.may("POST", historyPath), advice: rights.may("POST", advicePath) })} selected={tab} onSelect={setTab}>
        <Kept isShown={tab === "definition"}><Definition texts={mine.texts} others={mine.others} check={check} keys={keys} shownField={shownField} onChange={change} /></Kept>
        {tab === "try" && <Try owner={owner} id={id} definition={definition} check={check} />}
        {tab === "changes" && <Changes check={check} isChanged={isChanged} />}
        {tab === "history" && <HistoryView app={nameOf(id)} etag={stored?.etag ?? null} isChanged={isChanged && stored !== null} mayWrite={rights.may("PUT", path)} onRestore={restore} />}
        {tab === "advice" && <AdviceView definition={check.about} onField={(field) => { setTab("definition"); setShownField({ field }); }} />}
        {tab === "access" && <MatrixView definition={check.about} checked={check.checked} />}
      </Tabs>
      {saving.kind === "breaking" && <ConfirmBreaking effects={saving.effects} onCancel={() => setSaving({ kind: "idle" })} onSave={() => void put(saving.definition)} />}
      {isDeleting && <ConfirmDelete name={nameOf(id)} onRemove={() => work.remove().then(onDeleted)} onClose={() => setDeleting(false)} />}
    </div>
  );
}

/** The editors keep their history, positions and folds while another tab is open. */
function Kept({ isShown, children }: { isShown: boolean; children: ComponentChildren }) {
  return <div class="bench-kept" hidden={!isShown}>{children}</div>;
}

function tabsFor({ checked }: Check, isChanged: boolean, has: { history: boolean; advice: boolean }) {
  const breaking = isChanged ? (checked?.breaking ?? 0) : 0;
  const changes = breaking > 0 ? <>Changes <span class="apps-breaking">{breaking} breaking</span></> : "Changes";
  return [
    { key: "definition" as const, label: "Definition" },
    { key: "try" as const, label: "Try" },
    { key: "changes" as const, label: changes },
    ...(has.history ? [{ key: "history" as const, label: "History" }] : []),
    { key: "access" as const, label: "Access" },
    ...(has.advice ? [{ key: "advice" as const, label: "Advice" }] : []),
  ];
}

/** The server's own reading of exactly these texts is stored. */
async function prepare(id: AppId, mine: Version, definition: string): Promise<{ json: string; breaking: readonly string[] }> {
  try {
    const checked = await checkDefinition(definition, new AbortController().signal);
    const { definition: json, effects = [], errors } = checked;
    const first = errors[0];
    if (first !== undefined) throw new Error(`The definition is not valid yet: ${first.what}`);
    if (json === null) throw new Error("The server did not return the definition of these texts.");
    return { json, breaking: effects.filter((one) => one.severity === "breaking").map((one) => one.what) };
  } catch (error) {
    if (asApiError(error).status !== 403) throw error;
    return { json: writePlain(id, mine), breaking: [] };
  }
}

function pressSave(event: KeyboardEvent, save: () => Promise<void>): void {
  if (event.key !== "s" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
  event.preventDefault();
  void save();
}

/** The browser asks before the page is closed or loaded again. */
function useLeaveQuestion(isTouched: boolean): void {
  useEffect(() => {
    if (!isTouched) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isTouched]);
}

/** When the user returns to the page, it loads the changes of others. */
function useFreshness(work: Work): void {
  const load = useRef(work.load);
  load.current = work.load;
  useEffect(() => {
    const look = () => {
      if (document.visibilityState === "visible") void load.current().catch(() => undefined);
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
}
