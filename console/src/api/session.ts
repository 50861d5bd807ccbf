/**
 * Who is calling, and every request that the console sends.
 *
 * A login ends up in a cookie that no script can read, where the server sets one; otherwise in a token that
 * only this module holds: closing or reloading the page forgets it. The password is forgotten at once, unless the server
 * gives no tokens at all.
 */

import { ApiError, readError } from "./error.js";
import { forgetKept } from "./kept.js";
import { pathOf, settings } from "./settings.js";
import { Store } from "./store.js";

export interface Login {
  readonly name: string;
  readonly roles: readonly string[];
  readonly way: "cookie" | "token";
}

export interface SessionState {
  /** null: nobody is logged in; requests are sent all the same, and rules may admit them. */
  readonly login: Login | null;
  /** The login that was there has ended: the page asks for the password and keeps what it shows. */
  readonly hasExpired: boolean;
  /** False until it is known whether a cookie is still good. */
  readonly isReady: boolean;
}

export interface Request {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is; `json` is the way for values. */
  readonly body?: BodyInit;
  readonly json?: unknown;
  readonly signal?: AbortSignal;
}

const rememberedName = "docgraph.console.user"; // a name, never a secret
const validUntil = "Auth-Token-Valid-Until"; // every answer to a known caller has it
const renewBeforeEnd = 40_000; // ms; the server hands out the next token in the last minute

export const sessionState = new Store<SessionState>({ login: null, hasExpired: false, isReady: false });

let authorization: string | null = null;
let renewal: ReturnType<typeof setTimeout> | undefined;
let lastTouch = 0;

/** Send a request as the caller; the answer whatever its status, `ApiError` only when there is none. */
export async function send(path: string, request: Request = {}): Promise<Response> {
  const { login } = sessionState.value;
  const response = await sendAs(path, request, authorization);
  if (login !== null && isStill(login)) await hearOf(login, response);
  return response;
}

/** An answer can come late: it tells of the login that asked, never of one that has begun since. */
function isStill(login: Login): boolean {
  return sessionState.value.login === login;
}

async function hearOf(login: Login, response: Response): Promise<void> {
  if (response.status === 401) expire();
  else if (login.way === "token") takeToken(login.name, response);
  else if (response.ok && !response.headers.has(validUntil)) await confirmLogin(login);
}

/** Send a request; an answer that is no success is thrown as `ApiError`. */
export async function request(path: string, options: Request = {}): Promise<Response> {
  const response = await send(path, options);
  if (!response.ok) throw await readError(response);
  return response;
}

/** The JSON of a successful answer. */
export async function requestJson<Value>(path: string, options: Request = {}): Promise<Value> {
  const response = await request(path, options);
  return (await response.json()) as Value;
}

/** Log in; throws `ApiError` (401: wrong name or password). */
export async function logIn(name: string, password: string): Promise<void> {
  const mine = basic(name, password);
  // A browser takes a cookie only from an answer to a request that could have carried one.
  const response = await sendAs(rolesPath(name, settings.cookies), {}, mine, settings.cookies ? "same-origin" : "omit");
  if (!response.ok) throw await readError(response);
  const { roles } = (await response.json()) as { roles: string[] };
  const hasCookie = settings.cookies && !response.headers.has("Auth-Cookie-Not-Set") && (await isKnownByCookie(name));
  authorization = hasCookie ? null : mine;
  if (!hasCookie) takeToken(name, response);
  remember(hasCookie ? name : null);
  begin({ name, roles, way: hasCookie ? "cookie" : "token" }, response);
}

/** Log out: the token ends on the server, and nothing of it stays here. */
export async function logOut(): Promise<void> {
  const login = sessionState.value.login;
  clearTimeout(renewal);
  try {
    if (login?.way === "cookie") await sendAs(pathOf("authCookieRemover"), { method: "POST" }, null, "same-origin");
    else if (login && "authTokenService" in settings.paths) {
      await sendAs(pathOf("authTokenService", login.name), { method: "DELETE" }, authorization);
    }
  } finally {
    authorization = null;
    remember(null);
    if (login) forgetKept(login.name);
    sessionState.set({ login: null, hasExpired: false, isReady: true });
  }
}

/** Go on without a login after it has expired. */
export function stayAnonymous(): void {
  authorization = null;
  remember(null);
  sessionState.set({ login: null, hasExpired: false, isReady: true });
}

/** Find out, at the start of the page, whether a cookie is still good. */
export async function resume(): Promise<void> {
  const name = settings.cookies ? recall() : null;
  try {
    if (name === null) return;
    const response = await sendAs(rolesPath(name), {}, null, "same-origin");
    if (!response.ok) return remember(null);
    const { roles } = (await response.json()) as { roles: string[] };
    begin({ name, roles, way: "cookie" }, response);
  } catch {
    // No connection: the first page says so, in its own words.
  } finally {
    sessionState.set({ ...sessionState.value, isReady: true });
  }
}

function sendAs(
  path: string,
  { method = "GET", headers = {}, body, json, signal }: Request,
  as: string | null,
  credentials: RequestCredentials = sessionState.value.login?.way === "cookie" ? "same-origin" : "omit",
): Promise<Response> {
  // Without `No-Auth-Challenge` a refused login makes the browser show a window of its own.
  const fields = new Headers({ "No-Auth-Challenge": "1", ...headers });
  if (as !== null) fields.set("Authorization", as);
  if (json !== undefined && !fields.has("Content-Type")) fields.set("Content-Type", "application/json");
  const content = json === undefined ? (body ?? null) : JSON.stringify(json);
  const init: RequestInit = { method, headers: fields, body: content, credentials, cache: "no-store", signal: signal ?? null };
  return fetch(path, init).catch((thrown: unknown) => {
    if (thrown instanceof DOMException && thrown.name === "AbortError") throw thrown;
    throw new ApiError(0, "no-connection", "The server does not answer.", undefined, "Check the connection, then try again.");
  });
}

async function isKnownByCookie(name: string): Promise<boolean> {
  const response = await sendAs(rolesPath(name), {}, null, "same-origin");
  return response.ok;
}

function rolesPath(name: string, withCookie = false): string {
  return pathOf("roles", name) + (withCookie ? "?set-auth-cookie" : "");
}

function begin(login: Login, response: Response): void {
  sessionState.set({ login, hasExpired: false, isReady: true });
  planRenewal(response);
}

/** Who comes with a cookie that has ended is a stranger, whom rules may admit: nothing but the answer tells. */
async function confirmLogin(login: Login): Promise<void> {
  if (!(await isKnownByCookie(login.name)) && isStill(login)) expire();
}

function expire(): void {
  clearTimeout(renewal);
  authorization = null;
  sessionState.set({ ...sessionState.value, login: null, hasExpired: true });
}

/** A token takes the place of the password, and the next token that of the last one. */
function takeToken(name: string, response: Response): void {
  const token = response.headers.get("Auth-Token");
  if (token === null) return;
  const next = basic(name, token);
  if (next === authorization) return;
  authorization = next;
  planRenewal(response);
}

/** Before the login ends it is renewed, as long as somebody is using the page. */
function planRenewal(response: Response): void {
  const end = Date.parse(response.headers.get(validUntil) ?? "");
  if (Number.isNaN(end)) return;
  clearTimeout(renewal);
  const plannedAt = Date.now();
  const delay = Math.max(1000, end - plannedAt - renewBeforeEnd);
  renewal = setTimeout(() => {
    if (lastTouch > plannedAt) void renew();
  }, Math.min(delay, 0x7fffffff));
}

async function renew(): Promise<void> {
  const login = sessionState.value.login;
  if (login === null) return;
  const query = login.way === "cookie" ? "?set-auth-cookie&renew-auth-token" : "";
  try {
    const response = await send(pathOf("roles", login.name) + query);
    if (response.ok && isStill(login)) planRenewal(response);
  } catch {
    // No connection: the next request says so.
  }
}

function basic(name: string, secret: string): string {
  const bytes = new TextEncoder().encode(`${name}:${secret}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

function remember(name: string | null): void {
  try {
    if (name === null) localStorage.removeItem(rememberedName);
    else localStorage.setItem(rememberedName, name);
  } catch {
    // A browser that keeps nothing: the login ends with the page.
  }
}

function recall(): string | null {
  try {
    return localStorage.getItem(rememberedName);
  } catch {
    return null;
  }
}

for (const kind of ["keydown", "pointerdown"]) {
  addEventListener(kind, () => (lastTouch = Date.now()), { capture: true, passive: true });
}
