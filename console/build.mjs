// Builds the console into src/docgraph/console/static: hashed names, gzip and brotli next to each file,
// and manifest.json, by which the server knows the files. Nothing half built is ever served: the
// files are written next to the directory, and then replace the old one.
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.env.CONSOLE_OUT ?? join(here, "../src/docgraph/console/static");
const fresh = `${target}.new`;
const mostEveryPageNeeds = 300 * 1024; // bytes, compressed with gzip
const forbidden = /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|eval\(|new Function)/;

refuseMarkupFromText(join(here, "src"));
refuseCircles(join(here, "src"));
rmSync(fresh, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { main: "src/main.tsx", style: "src/style/all.css" },
  outdir: fresh,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["chrome109", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none", // licenses.txt has them all
  define: { "process.env.NODE_ENV": '"production"' },
  metafile: true,
  logLevel: "warning",
});
mkdirSync(fresh, { recursive: true });
writeFileSync(join(fresh, "licenses.txt"), collectLicenses(Object.keys(metafile.inputs)));
const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
const script = findOutput("src/main.tsx");
const style = findOutput("src/style/all.css");
const needed = collectNeeded(script);
for (const name of readdirSync(fresh)) compress(join(fresh, name));
const bytes = [style, ...needed].reduce((sum, name) => sum + readFileSync(join(fresh, `${name}.gz`)).length, 0);
if (bytes > mostEveryPageNeeds) {
  rmSync(fresh, { recursive: true });
  throw new Error(`what every page needs is ${bytes} bytes compressed, more than ${mostEveryPageNeeds}`);
}
const files = readdirSync(fresh).filter((name) => !/\.(gz|br)$/.test(name)).sort();
writeFileSync(join(fresh, "manifest.json"), JSON.stringify({ script, style, preload: needed.slice(1), files }, null, 1));
replaceDirectory();
console.log(`console: ${files.length} files, ${Math.round(bytes / 1024)} KiB compressed for every page`);

function findOutput(entryPoint) {
  for (const [name, output] of outputs) if (output.entryPoint === entryPoint) return name;
  throw new Error(`nothing was built of ${entryPoint}`);
}

/** The script and everything that it imports before it runs. */
function collectNeeded(name, found = []) {
  if (found.includes(name)) return found;
  found.push(name);
  for (const { path, kind } of outputs.get(name).imports) {
    if (kind === "import-statement") collectNeeded(basename(path), found);
  }
  return found;
}

function compress(path) {
  const content = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 10, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }));
}

/** The licenses of the packages whose code is in the files. */
function collectLicenses(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  return [...packages].sort().map(readLicense).join("\n");
}

function readLicense(name) {
  const directory = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  const file = readdirSync(directory).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? readFileSync(join(directory, file), "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}\n\n${"-".repeat(72)}\n`;
}

/** Values are shown as text; what could make markup or code of them has no place in our sources. */
function refuseMarkupFromText(directory) {
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() || !/\.tsx?$/.test(entry.name)) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const found = forbidden.exec(readFileSync(path, "utf8"));
    if (found) throw new Error(`${relative(here, path)} uses ${found[1]}, which makes markup or code of text`);
  }
}

/** Modules that import each other, be it types, can be understood and tested only together. */
function refuseCircles(directory) {
  const done = new Set();
  const visit = (path, way) => {
    if (way.includes(path)) throw new Error(`a circle of imports: ${[...way.slice(way.indexOf(path)), path].map((one) => relative(here, one)).join(" -> ")}`);
    if (done.has(path)) return;
    for (const [, name] of readFileSync(path, "utf8").matchAll(/(?:from|import\()\s*"(\.[^"]+)\.js"/g)) {
      const next = [".ts", ".tsx"].map((ending) => join(dirname(path), name + ending)).find(existsSync);
      if (next !== undefined) visit(next, [...way, path]);
    }
    done.add(path);
  };
  for (const entry of readdirSync(directory, { recursive: true })) if (/\.tsx?$/.test(entry)) visit(join(directory, entry), []);
}

function replaceDirectory() {
  const old = `${target}.old`;
  rmSync(old, { recursive: true, force: true });
  if (existsSync(target)) renameSync(target, old);
  renameSync(fresh, target);
  rmSync(old, { recursive: true, force: true });
}
