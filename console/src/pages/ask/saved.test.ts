import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { forgetKept, keptKey } from "../../api/kept.js";
import { dropSaved, isSavedKey, listSaved, loadSaved, saveQuery } from "./saved.js";

const place = { owner: "ada", app: "blog" };
const query = (name: string, text = "{ a }", headers = "") => ({ name, query: text, variables: "", headers, at: 1 });
const namesOf = (where = place) => listSaved(where).map((one) => one.name);

beforeEach(() => {
  for (const key of Object.keys(localStorage)) localStorage.removeItem(key);
});

test("queries are saved by name, for one user and app", () => {
  assert.equal(saveQuery(place, query("Two words")), null);
  assert.equal(saveQuery(place, query("A")), null);
  assert.deepEqual(namesOf(), ["A", "Two words"]);
  assert.deepEqual([namesOf({ owner: "bob", app: "blog" }), namesOf({ owner: "ada", app: "shop" })], [[], []]);
});

test("the same name replaces the query, and a deleted one is removed", () => {
  saveQuery(place, query("A"));
  saveQuery(place, query("A", "{ b }"));
  assert.equal(loadSaved(place, "A")?.query, "{ b }");
  dropSaved(place, "A");
  assert.deepEqual(namesOf(), []);
});

test("saving a query that cannot be stored returns the reason", () => {
  assert.match(saveQuery(place, query(" "))!, /1 to 100/);
  assert.match(saveQuery(place, query("A", " "))!, /empty/);
  assert.match(saveQuery(place, query("A", "x".repeat(100_001)))!, /too long/);
  for (let count = 0; count < 200; count += 1) saveQuery(place, query(`N${count}`));
  assert.match(saveQuery(place, query("one more"))!, /200/);
  assert.equal(saveQuery(place, query("N7", "{ b }")), null);
});

test("headers that may be a secret are not saved, and logging out forgets all", () => {
  saveQuery(place, query("A", "{ a }", "X-Api-Key: abc"));
  saveQuery(place, query("B", "{ a }", "X-Tenant: a"));
  assert.deepEqual(listSaved(place).map((one) => one.headers), ["", "X-Tenant: a"]);
  forgetKept("ada");
  assert.deepEqual(namesOf(), []);
});

test("changes of another window are known by their key", () => {
  assert.equal(isSavedKey(place, keptKey("ada", "ask", "blog", "saved", 'a "b"')), true);
  assert.equal(isSavedKey(place, keptKey("ada", "ask", "blog", "tab", "1")), false);
  assert.equal(isSavedKey(place, keptKey("ada", "ask", "blog2", "saved", "1")), false);
});
