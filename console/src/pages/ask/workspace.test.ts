import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { findUnsaved, keptKey } from "../../api/kept.js";
import { type Workspace, addDraft, changeDraft, closeDraft, isFull, loadWorkspace, makeDraft, mergeOther, mostDrafts, openDraft, saveWorkspace, startWorkspace } from "./workspace.js";

const place = { owner: "ada", app: "blog" };
const nothing: Workspace = { drafts: [], current: "" };

beforeEach(() => {
  for (const key of Object.keys(localStorage)) localStorage.removeItem(key);
});

test("what is kept comes back, without blank tabs and examples", () => {
  const now = { drafts: [makeDraft("{ a }"), makeDraft(), { ...makeDraft("{ b }"), isExample: true }], current: "" };
  assert.equal(saveWorkspace(place, nothing, now), true);
  assert.deepEqual(loadWorkspace(place)?.drafts.map((one) => one.query), ["{ a }"]);
  assert.equal(findUnsaved("ada", true), "tab");
});

test("two windows that save do not overwrite each other's tabs", () => {
  const first = startWorkspace(makeDraft("{ a }"));
  const second = startWorkspace(makeDraft("{ b }"));
  saveWorkspace(place, nothing, first);
  saveWorkspace(place, nothing, second);
  saveWorkspace(place, first, changeDraft(first, { query: "{ c }" }));
  assert.deepEqual(loadWorkspace(place)?.drafts.map((one) => one.query).sort(), ["{ b }", "{ c }"]);
});

test("a tab that one window closes is closed in the other, and only that one", () => {
  const [a, b] = [makeDraft("{ a }"), makeDraft("{ b }")];
  const both = { drafts: [a, b], current: a.id };
  saveWorkspace(place, nothing, both);
  saveWorkspace(place, both, closeDraft(both, b.id));
  const other = mergeOther(place, both, keptKey("ada", "ask", "blog", "tab", b.id), null);
  assert.deepEqual(other.drafts, [a]);
  assert.deepEqual(loadWorkspace(place)?.drafts, [a]);
});

test("a tab of another app or user is none of ours", () => {
  const mine = startWorkspace(makeDraft("{ a }"));
  const draft = makeDraft("{ b }");
  for (const key of [keptKey("ada", "ask", "shop", "tab", draft.id), keptKey("bob", "ask", "blog", "tab", draft.id), keptKey("ada", "visit", "posts")]) {
    assert.equal(mergeOther(place, mine, key, draft), mine);
  }
});

test("an example gives its place to a query", () => {
  const example = { ...makeDraft("{ a }"), isExample: true };
  const mine = makeDraft("{ b }");
  assert.deepEqual(openDraft(startWorkspace(example), mine)?.drafts, [mine]);
  assert.equal(changeDraft(startWorkspace(example), { query: "{ c }" }).drafts[0]?.isExample, false);
});

const fullOf = (texts: readonly string[]) => texts.map((text) => makeDraft(text)).reduce((now, draft) => addDraft(now, draft), nothing);
const textsOf = (workspace: Workspace | null) => workspace?.drafts.map((one) => one.query);
const twenty = Array.from({ length: mostDrafts }, (_, index) => `{ a${index} }`);

test("no tab is opened beyond the most, and none is closed for it", () => {
  const full = fullOf(twenty);
  assert.equal(isFull(full), true);
  assert.equal(openDraft(full, makeDraft("{ b }")), null);
  assert.equal(openDraft(full, makeDraft()), null);
  const room = closeDraft(full, full.drafts[3]!.id);
  assert.deepEqual(textsOf(openDraft(room, makeDraft("{ b }"))), [...twenty.filter((_, index) => index !== 3), "{ b }"]);
});

test("where there is no room, a query takes the place of an unused tab, wherever that is", () => {
  const full = fullOf(["{ a }", "", ...twenty.slice(2)]);
  assert.deepEqual(textsOf(openDraft(full, makeDraft("{ b }"))), ["{ a }", ...twenty.slice(2), "{ b }"]);
  const typed = { ...full, drafts: full.drafts.map((one) => (one.query === "" ? { ...one, headers: "X-Tenant: a" } : one)) };
  assert.equal(openDraft(typed, makeDraft("{ b }")), null);
});

test("every tab comes back, also those that two windows opened at the same time", () => {
  const more = fullOf([...twenty, "{ b }"]);
  saveWorkspace(place, nothing, more);
  assert.deepEqual(textsOf(loadWorkspace(place))?.sort(), [...twenty, "{ b }"].sort());
});

test("a tab with headers only is kept", () => {
  const headed = { ...makeDraft(), headers: "X-Tenant: a" };
  saveWorkspace(place, nothing, startWorkspace(headed));
  assert.deepEqual(loadWorkspace(place)?.drafts, [headed]);
});

test("headers are kept with their tab, unless one may be a secret", () => {
  const now = { drafts: [{ ...makeDraft("{ a }"), headers: "X-Tenant: a" }, { ...makeDraft("{ b }"), headers: "Authorization: Basic abc" }, { ...makeDraft("{ c }"), headers: "X-Api-Key: abc" }], current: "" };
  saveWorkspace(place, nothing, now);
  assert.deepEqual(loadWorkspace(place)?.drafts.map((one) => one.headers), ["X-Tenant: a", "", ""]);
  assert.doesNotMatch(JSON.stringify(Object.keys(localStorage).map((key) => localStorage.getItem(key))), /abc/);
});

test("a window that hears of its tab from another keeps its secret headers", () => {
  const mine = startWorkspace({ ...makeDraft("{ a }"), headers: "X-Api-Key: abc" });
  const [draft] = mine.drafts;
  const merged = mergeOther(place, mine, keptKey("ada", "ask", "blog", "tab", draft!.id), { ...draft, query: "{ b }", headers: "" });
  assert.deepEqual([merged.drafts[0]?.query, merged.drafts[0]?.headers], ["{ b }", "X-Api-Key: abc"]);
});
