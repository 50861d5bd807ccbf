import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

// Modules read where services are when they are loaded.
const settings = { title: "", version: "", base: "/console", paths: { ownRights: "/_tools/rights" }, tools: [], definitions: null, passwords: true, cookies: false };
globalThis.document = { querySelector: () => ({ content: JSON.stringify(settings) }), getElementById: () => null } as unknown as Document;
const { hidesProperties, requireRight } = await import("./rights.js");
const { sessionState } = await import("./session.js");

const anonymous = { login: null, hasExpired: false, awaited: null, isReady: true };
const known = { ...anonymous, login: { name: "rita", roles: [], way: "token" as const } };
let asked: string[] = [];
let answer: (paths: readonly string[]) => unknown;

beforeEach(() => {
  asked = [];
  globalThis.fetch = ((url: string) => {
    asked.push(url);
    const paths = new URLSearchParams(url.split("?")[1]).getAll("path");
    const body = answer(paths);
    return Promise.resolve(body === null ? new Response("", { status: 500 }) : new Response(JSON.stringify(body)));
  }) as typeof fetch;
});
afterEach(() => sessionState.set({ ...anonymous }));

function allow(methods: readonly string[]): void {
  answer = (paths) => ({ services: [], rights: paths.map((path) => ({ path, allowed: methods, conditional: [] })) });
}

test("what is not allowed is refused without the request, and asked again the next time", async () => {
  sessionState.set({ ...anonymous });
  allow([]);
  await assert.rejects(requireRight("GET", "/a"), { status: 401 });
  sessionState.set(known);
  await assert.rejects(requireRight("GET", "/a"), { status: 403 });
  allow(["GET"]);
  await requireRight("GET", "/a");
  assert.equal(asked.length, 3);
  await requireRight("GET", "/a");
  assert.equal(asked.length, 3);
});

test("rights of one caller are not those of the next", async () => {
  sessionState.set(known);
  allow(["GET"]);
  await requireRight("GET", "/b");
  sessionState.set({ ...anonymous });
  allow([]);
  await assert.rejects(requireRight("GET", "/b"), { status: 401 });
});

test("what is wanted at one moment is one request, and without an answer nothing is refused", async () => {
  answer = () => null;
  await Promise.all([requireRight("GET", "/c"), requireRight("POST", "/d")]);
  assert.equal(asked.length, 1);
});

test("after a login has ended nothing is asked", async () => {
  sessionState.set({ ...anonymous, hasExpired: true });
  await assert.rejects(requireRight("GET", "/e"), { status: 401 });
  assert.equal(asked.length, 0);
});

test("where a rule hides properties is asked each time", async () => {
  sessionState.set(known);
  const report = (partial: readonly string[]) => (answer = (paths) => ({ services: [], rights: paths.map((path) => ({ path, allowed: ["GET"], conditional: [], partial })) }));
  report(["GET"]);
  assert.equal(await hidesProperties("/hiding"), true);
  report([]);
  assert.equal(await hidesProperties("/hiding"), false);
  report(["PATCH"]);
  assert.equal(await hidesProperties("/hiding"), false);
  answer = () => null;
  assert.equal(await hidesProperties("/hiding"), true, "unknown: nothing may be lost");
});
