/** The apps of the caller, and questions to them. */

import { ApiError } from "./error.js";
import { requestJson, send } from "./session.js";
import { pathOf, settings } from "./settings.js";
import { parseJson } from "../parts/json.js";

export interface VisibleApp {
  readonly app: string;
  readonly path: string;
  readonly description?: string;
}

export interface Question {
  readonly query: string;
  /** JSON, as it was typed: no digit of it is lost on the way. */
  readonly variables: string;
  readonly operation: string | null;
}

/** Further headers of a request, by name. */
export type RequestHeaders = Readonly<Record<string, string>>;

/** The caller to ask as, which is for the root role. */
export interface As {
  readonly roles?: readonly string[];
  readonly user?: string;
}

export interface Place {
  readonly line: number;
  readonly column: number;
}

export interface GraphqlError {
  readonly message: string;
  readonly locations: readonly Place[];
  readonly path: readonly (string | number)[] | null;
  readonly code: string | null;
  readonly hint: string | null;
}

export interface Answer {
  readonly status: number;
  readonly ms: number;
  readonly bytes: number;
  readonly text: string;
  /** The parsed text; undefined: it is not JSON. */
  readonly body: unknown;
  readonly errors: readonly GraphqlError[];
}

const mostPages = 50; // of a hundred apps each

/** Every app that the caller may ask, by uri. */
export async function listApps(signal?: AbortSignal): Promise<readonly VisibleApp[]> {
  if (!("visibleApps" in settings.paths)) return [];
  const found: VisibleApp[] = [];
  let after = "";
  for (let page = 0; page < mostPages; page += 1) {
    const path = `${pathOf("visibleApps")}?after=${encodeURIComponent(after)}`;
    const { apps, next } = await requestJson<{ apps: VisibleApp[]; next?: string }>(path, signal ? { signal } : {});
    found.push(...apps);
    if (next === undefined) break;
    after = next;
  }
  return found;
}

/** The path of the app with this uri. */
export function appPath(uri: string): string {
  return pathOf("graphql", ...uri.split("/"));
}

/** Ask an app, as oneself or as another caller; the response whatever its status, `ApiError` only if there is none. */
export function ask(uri: string, question: Question, signal?: AbortSignal, as: As | null = null, own: RequestHeaders = {}): Promise<Answer> {
  if (as !== null) return askAt(pathOf("tools", "draft"), writeQuestion(question, { app: uri, ...as }), signal);
  return askAt(appPath(uri), writeQuestion(question), signal, own);
}

/** Ask with this body at a path that answers as apps do. */
export async function askAt(path: string, body: string, signal?: AbortSignal, own: RequestHeaders = {}): Promise<Answer> {
  const started = performance.now();
  const headers = { ...own, "Content-Type": "application/json", Accept: "application/graphql-response+json, application/json" };
  const response = await send(path, { method: "POST", headers, body, ...(signal ? { signal } : {}) });
  const bytes = await readBytes(response);
  return readAnswer(response.status, performance.now() - started, bytes);
}

/** The answer that these bytes are. */
export function readAnswer(status: number, ms: number, bytes: ArrayBuffer | Uint8Array): Answer {
  const text = new TextDecoder().decode(bytes);
  const content = tryParse(text);
  return { status, ms, bytes: bytes.byteLength, text, body: content, errors: readErrors(content) };
}

/** The body of a question; `more` are further members of it. */
export function writeQuestion({ query, variables, operation }: Question, more: Readonly<Record<string, unknown>> = {}): string {
  const members = Object.entries({ ...more, query }).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  if (variables.trim()) members.push(`"variables":${variables}`);
  if (operation !== null) members.push(`"operationName":${JSON.stringify(operation)}`);
  return `{${members.join(",")}}`;
}

async function readBytes(response: Response): Promise<ArrayBuffer> {
  try {
    return await response.arrayBuffer();
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === "AbortError") throw thrown;
    throw new ApiError(0, "no-connection", "The connection was lost before the answer was complete.", undefined, "Run the query again.");
  }
}

function tryParse(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The errors of an answer, whatever else it holds. */
export function readErrors(body: unknown): readonly GraphqlError[] {
  const errors = isObject(body) ? body["errors"] : undefined;
  return Array.isArray(errors) ? errors.filter(isObject).map(readError) : [];
}

function readError(error: Record<string, unknown>): GraphqlError {
  const { message, locations, path } = error;
  const extensions = isObject(error["extensions"]) ? error["extensions"] : {};
  return {
    message: typeof message === "string" ? message : "An error without a message",
    locations: Array.isArray(locations) ? locations.filter(isPlace) : [],
    path: Array.isArray(path) && path.every(isStep) ? path : null,
    code: asText(extensions["code"]),
    hint: asText(extensions["hint"]),
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isPlace(value: unknown): value is Place {
  return isObject(value) && typeof value["line"] === "number" && typeof value["column"] === "number";
}

function isStep(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}

function asText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
