/**
 * Who is calling, and every request that the console sends.
 *
 * A login ends up in a cookie that no script can read, where the server sets one; otherwise in a token, which is kept for
 * this tab and handed to new tabs of the console (`tabs.ts`). The password is forgotten immediately, unless the server issues no
 * tokens at all: then it is kept in memory, and a reload forgets it.
 */

import { ApiError, readError } from "./error.js";
import { forgetKept } from "./kept.js";
import { pathOf, settings } from "./settings.js";
import { Store } from "./store.js";
import { type KeptToken, type Message, hear, keepToken, readToken, tell } from "./tabs.js";

export interface Login {
  readonly name: string;
  readonly roles: readonly string[];
  readonly way: "cookie" | "token";
}

export interface SessionState {
  /** null: not logged in; requests are sent without credentials, and rules may admit them. */
  readonly login: Login | null;
  /** The login has ended: the page asks for the password and keeps its content. */
  readonly hasExpired: boolean;
  /** The user who was logged in before; null during a login. This browser stores work of that user. */
  readonly awaited: string | null;
  /** False until it is known whether a login from before is still good. */
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
const validUntil = "Auth-Token-Valid-Until"; // in every response to an authenticated caller
const patience = 400; // ms for other tabs to answer; a later answer counts, too
const renewBeforeEnd = 40_000; // ms; the server hands out the next token in the last minute

const loggedOut: SessionState = { login: null, hasExpired: false, awaited: null, isReady: true };

export const sessionState = new Store<SessionState>({ ...loggedOut, isReady: false });

/** How often the server has rejected something: each time, the offered actions are checked again. */
export const refusals = new Store(0);

let authorization: string | null = null;
let renewal: ReturnType<typeof setTimeout> | undefined;
let lastTouch = 0;
let lastName: string | null = null;

/** Send a request as the caller; the answer whatever its status, `ApiError` only when there is none. */
export async function send(path: string, request: Request = {}): Promise<Response> {
  const { login } = sessionState.value;
  const response = await sendAs(path, request, authorization);
  if (login !== null && isStill(login)) await hearOf(login, response);
  if (response.status === 403) refusals.set(refusals.value + 1);
  return response;
}

/** A late response applies to the login that sent the request, never to a newer one. */
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
  remember(name);
  begin({ name, roles, way: hasCookie ? "cookie" : "token" }, response);
  if (hasCookie) tell({ kind: "cookie", name });
  else handOut();
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
    if (login) leave(login.name);
    if (login) tell({ kind: "ended", name: login.name });
  }
}

/** Nothing of a login stays in this tab. */
function leave(name: string): void {
  clearTimeout(renewal);
  authorization = null;
  keepToken(null);
  remember(null);
  forgetKept(name);
  sessionState.set(loggedOut);
}

/** Continue without a login after it has expired. */
export function stayAnonymous(): void {
  authorization = null;
  keepToken(null);
  remember(null);
  sessionState.set(loggedOut);
}

/** Find out, at the start of the page, whether a login from before is still good. */
export async function resume(): Promise<void> {
  hear(listen);
  const name = recall();
  const token = readToken();
  try {
    if (token !== null) await resumeBy(token);
    else if (name !== null && settings.cookies) await resumeByCookie(name);
    if (name !== null && sessionState.value.login === null) await askOthers();
  } catch {
    // No connection: the first page reports it.
  } finally {
    const { login } = sessionState.value;
    sessionState.set({ ...sessionState.value, awaited: login === null ? name : null, isReady: true });
  }
}

async function resumeByCookie(name: string): Promise<void> {
  const response = await sendAs(rolesPath(name), {}, null, "same-origin");
  if (!response.ok) return;
  const { roles } = (await response.json()) as { roles: string[] };
  if (sessionState.value.login === null) begin({ name, roles, way: "cookie" }, response);
}

/** A token from before, or of another tab; it may have ended. */
async function resumeBy({ name, authorization: mine }: KeptToken): Promise<void> {
  const response = await sendAs(rolesPath(name), {}, mine, "omit");
  if (!response.ok) {
    keepToken(null);
    return;
  }
  const { roles } = (await response.json()) as { roles: string[] };
  if (sessionState.value.login !== null) return;
  authorization = mine;
  begin({ name, roles, way: "token" }, response);
  takeToken(name, response);
  keepToken({ name, authorization, until: endOf(response) });
}

/** Ask the other tabs for the login; a late answer counts, too. */
async function askOthers(): Promise<void> {
  tell({ kind: "ask" });
  await new Promise<void>((resolve) => {
    const stop = sessionState.subscribe(end);
    const timer = setTimeout(end, patience);
    function end(): void {
      clearTimeout(timer);
      stop();
      resolve();
    }
  });
}

function listen(message: Message): void {
  const { login, hasExpired } = sessionState.value;
  if (message.kind === "ask") return handOut();
  if (message.kind === "ended") return login?.name === message.name ? leave(message.name) : undefined;
  const name = message.kind === "token" ? message.token.name : message.name;
  const isMine = login === null && (hasExpired ? lastName === name : recall() === name);
  if (!isMine) return;
  const resuming = message.kind === "token" ? resumeBy(message.token) : resumeByCookie(name);
  resuming.catch(() => undefined); // no connection: the next request reports it
}

/** Other tabs of the console may use the token of this one; a password stays here. */
function handOut(): void {
  const token = sessionState.value.login?.way === "token" ? readToken() : null;
  if (token !== null) tell({ kind: "token", token });
}

function sendAs(
  path: string,
  { method = "GET", headers = {}, body, json, signal }: Request,
  as: string | null,
  credentials: RequestCredentials = sessionState.value.login?.way === "cookie" ? "same-origin" : "omit",
): Promise<Response> {
  // Without `No-Auth-Challenge`, the browser opens its own login window after a rejected login.
  const fields = new Headers({ "No-Auth-Challenge": "1", ...headers });
  if (as !== null) fields.set("Authorization", as);
  if (json !== undefined && !fields.has("Content-Type")) fields.set("Content-Type", "application/json");
  const content = json === undefined ? (body ?? null) : JSON.stringify(json);
  const init: RequestInit = { method, headers: fields, body: content, credentials, cache: "no-store", signal: signal ?? null };
  return fetch(settings.root + path, init).catch((thrown: unknown) => {
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
  lastName = login.name;
  sessionState.set({ ...loggedOut, login });
  planRenewal(response);
}

/** A caller whose cookie has expired is unauthenticated, and rules may admit them: only the response shows it. */
async function confirmLogin(login: Login): Promise<void> {
  if (!(await isKnownByCookie(login.name)) && isStill(login)) expire();
}

function expire(): void {
  clearTimeout(renewal);
  authorization = null;
  keepToken(null);
  sessionState.set({ ...sessionState.value, login: null, hasExpired: true });
}

/** A token replaces the password, and the next token replaces the previous one. */
function takeToken(name: string, response: Response): void {
  const token = response.headers.get("Auth-Token");
  if (token === null) return;
  const next = basic(name, token);
  if (next === authorization) return;
  authorization = next;
  keepToken({ name, authorization, until: endOf(response) });
  planRenewal(response);
}

/** When the login of a response ends, in ms. */
function endOf(response: Response): number | null {
  const end = Date.parse(response.headers.get(validUntil) ?? "");
  return Number.isNaN(end) ? null : end;
}

/** Renews the login before it ends, as long as the page is in use. */
function planRenewal(response: Response): void {
  const end = endOf(response);
  if (end === null) return;
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
    // No connection: the next request reports it.
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
    // The browser stores nothing: the login ends with the page.
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
