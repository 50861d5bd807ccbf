// Runs the unit tests (src/**/*.test.ts) with Node's own runner; esbuild turns each into a file that Node reads.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const built = mkdtempSync(join(tmpdir(), "docgraph-console-"));
// What modules expect of a browser when they are loaded.
const browser = `
const kept = new Map();
delete globalThis.BroadcastChannel; // it would keep the process alive
globalThis.localStorage = new Proxy({ getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, String(value)), removeItem: (key) => void kept.delete(key) },
  { ownKeys: () => [...kept.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) });
globalThis.sessionStorage = globalThis.localStorage;
globalThis.document ??= { querySelector: () => null, getElementById: () => null };
globalThis.location ??= { pathname: "/console", hash: "", origin: "http://localhost" };
globalThis.navigator ??= { userAgent: "" };
globalThis.addEventListener ??= () => undefined;
globalThis.removeEventListener ??= () => undefined;
`;
try {
  const entryPoints = readdirSync(join(here, "src"), { recursive: true }).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, "src", name));
  await build({ entryPoints, outdir: built, outExtension: { ".js": ".mjs" }, bundle: true, platform: "node", format: "esm", jsx: "automatic", jsxImportSource: "preact", banner: { js: browser }, logLevel: "warning" });
  const files = readdirSync(built, { recursive: true }).filter((name) => name.endsWith(".test.mjs")).map((name) => join(built, name));
  const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(built, { recursive: true });
}
