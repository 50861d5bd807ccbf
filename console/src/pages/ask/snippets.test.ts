import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { type Sent, writeSnippet } from "./snippets.js";

const query = 'query A($t: String) {\n  a(t: $t, u: "it\'s \\"é\\" $HOME `x` ${y}")\n}';
const sent: Sent = {
  url: "http://localhost:8080/graphql/blog",
  question: { query, variables: '{"t": 9007199254740993}', operation: "A" },
  headers: { "X-Tenant": "o'neil" },
  user: "ada",
};
const body = `{"query":${JSON.stringify(query)},"variables":{"t": 9007199254740993},"operationName":"A"}`;

test("a shell gives curl exactly the request", () => {
  const { stdout } = spawnSync("sh", ["-c", writeSnippet("curl", sent).replace(/^curl/, "printf '%s\\n'")], { encoding: "utf8" });
  assert.equal(stdout, `http://localhost:8080/graphql/blog\n--user\nada\n--header\nContent-Type: application/json\n--header\nX-Tenant: o'neil\n--data-binary\n${body}\n`);
});

test("fetch sends exactly the request", async () => {
  const seen: unknown[] = [];
  const script = `const fetch = async (url, init) => { seen.push(url, init); return { json: async () => ({}) }; };\n${writeSnippet("fetch", { ...sent, user: "ünal" }).replace('password = ""', 'password = "p"')}`;
  (globalThis as Record<string, unknown>)["seen"] = seen;
  const log = console.log;
  console.log = () => undefined;
  await import(`data:text/javascript,${encodeURIComponent(script)}`);
  console.log = log;
  const login = `Basic ${Buffer.from("ünal:p").toString("base64")}`;
  assert.deepEqual(seen, [sent.url, { method: "POST", headers: { "Content-Type": "application/json", "X-Tenant": "o'neil", Authorization: login }, body }]);
});

test("Python reads the texts as they are", (context) => {
  const script = `class requests:\n  def post(url, **rest):\n    class R:\n      json = lambda self: [url, [part.decode() for part in rest.pop("auth")], rest]\n    return R()\n${writeSnippet("python", sent).replace("import requests", "").replace("import getpass", "class getpass:\n  getpass = lambda: 'p'\n").replace("print(response.json())", "print(json.dumps(response.json()))")}`;
  const { stdout, error } = spawnSync("python3", ["-c", script], { encoding: "utf8" });
  if (error !== undefined) return context.skip("needs Python");
  const [url, auth, rest] = JSON.parse(stdout) as [string, string[], { headers: unknown; json: { query: string; operationName: string } }];
  assert.deepEqual([url, auth, rest.headers, rest.json.query, rest.json.operationName], [sent.url, ["ada", "p"], sent.headers, query, "A"]);
  assert.ok(stdout.includes('"variables": {"t": 9007199254740993}'));
  return undefined;
});

test("without a login, headers and variables nothing asks for them", () => {
  const plain: Sent = { ...sent, question: { query: "{a}", variables: "", operation: null }, headers: {}, user: null };
  for (const kind of ["curl", "fetch", "python"] as const) assert.doesNotMatch(writeSnippet(kind, plain), /user|getpass|password|variables|operationName|X-Tenant/);
});
