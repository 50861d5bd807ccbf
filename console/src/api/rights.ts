/** The permissions of the caller, from `GET /_tools/rights`: the page offers only these. The server checks each request again. */

import { useEffect } from "preact/hooks";
import { ApiError } from "./error.js";
import { requestJson, refusals, sessionState } from "./session.js";
import { pathOf, settings } from "./settings.js";
import { Store, useStore } from "./store.js";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

interface Answer {
  readonly services: readonly string[];
  readonly rights: readonly { readonly path: string; readonly allowed: readonly Method[]; readonly conditional: readonly Method[]; readonly partial?: readonly Method[] }[];
}

interface Known {
  /** The caller they are of; undefined before the first answer. */
  readonly caller: string | null | undefined;
  /** The services that a rule can open; null until they are known. */
  readonly services: ReadonlySet<string> | null;
  readonly methods: ReadonlyMap<string, ReadonlySet<string>>;
  /** Where a rule hides properties of what is read. */
  readonly partial: ReadonlySet<string>;
}

export interface Rights {
  /** False until the server has answered for all of the paths. */
  readonly isKnown: boolean;
  may(method: Method, path: string): boolean;
}

const service = "ownRights";
const isOff = !(service in settings.paths);
const mostPaths = 40; // in one request
const mostKept = 1000;
const known = new Store<Known>({ caller: undefined, services: null, methods: new Map(), partial: new Set() });
const everything: Rights = { isKnown: true, may: () => true };

let wanted = new Set<string>();
let planned: Promise<void> | null = null;

/** The permissions at these paths, which are encoded; read again for another caller, and after a rejection. */
export function useRights(asked: readonly string[]): Rights {
  const paths = asked.filter((path) => path !== ""); // a service that is off
  const { login, isReady, hasExpired } = useStore(sessionState);
  const refused = useStore(refusals);
  const { methods } = ofCaller(useStore(known), login?.name ?? null);
  useEffect(() => {
    if (isOff || !isReady || hasExpired) return;
    void want(login?.name ?? null, paths);
  }, [JSON.stringify(paths), login?.name, isReady, hasExpired, refused]);
  if (isOff) return everything;
  return { isKnown: paths.every((path) => methods.has(path)), may: (method, path) => methods.get(path)?.has(method) ?? false };
}

/** The permissions of this caller: right after a login or logout the stored ones are those of another. */
function ofCaller(all: Known, name: string | null): Known {
  return all.caller === name ? all : { caller: name, services: null, methods: new Map(), partial: new Set() };
}

/**
 * Throw the error that a request would get, without sending it, if the caller may not do this.
 *
 * A rejection is not cached: the rules may have changed.
 */
export async function requireRight(method: Method, path: string): Promise<void> {
  if (isOff) return;
  const { login, hasExpired } = sessionState.value;
  if (hasExpired) throw refusal();
  const name = login?.name ?? null;
  const isAllowed = () => ofCaller(known.value, name).methods.get(path)?.has(method) ?? false;
  if (isAllowed()) return;
  await want(name, [path]);
  if (!isAllowed()) throw refusal();
}

/** Whether a rule hides properties of what the caller reads at this path, or may do so: asked each time, as the rules may have changed. */
export async function hidesProperties(path: string): Promise<boolean> {
  if (isOff) return true;
  await want(sessionState.value.login?.name ?? null, [path]);
  return known.value.partial.has(path);
}

/** The error that the request would get, without sending it: the caller may not do this. */
export function refusal(): ApiError {
  return new ApiError(sessionState.value.login === null ? 401 : 403, "http-error", "");
}

/** Which services the caller can use at all; null until it is known. */
export function useServices(): ReadonlySet<string> | null {
  useRights([]);
  const { login } = useStore(sessionState);
  const { services } = ofCaller(useStore(known), login?.name ?? null);
  return isOff ? allServices : services;
}

const allServices: ReadonlySet<string> = new Set(Object.keys(settings.paths));

/** One request for everything that the parts of the page need at the same moment. */
function want(name: string | null, paths: readonly string[]): Promise<void> {
  known.set(ofCaller(known.value, name));
  for (const path of paths) wanted.add(path);
  planned ??= Promise.resolve().then(async () => {
    planned = null;
    const all = [...wanted];
    wanted = new Set();
    const portions = Array.from({ length: Math.max(1, Math.ceil(all.length / mostPaths)) }, (_, index) => all.slice(index * mostPaths, (index + 1) * mostPaths));
    const caller = known.value.caller ?? null; // the latest one
    await Promise.all(portions.map((portion) => read(caller, portion)));
  });
  return planned;
}

async function read(name: string | null, paths: readonly string[]): Promise<void> {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  const answer = await requestJson<Answer>(`${pathOf(service)}?${query}`).catch(() => null);
  if (known.value.caller !== name || (sessionState.value.login?.name ?? null) !== name) return; // the answer is for another user
  const methods = new Map(known.value.methods.size > mostKept ? [] : known.value.methods);
  // Without an answer the page offers everything: the server rejects what is not allowed.
  for (const path of paths) methods.set(path, new Set(answer === null ? ["GET", "POST", "PUT", "PATCH", "DELETE"] : []));
  const partial = new Set([...known.value.partial].filter((path) => methods.has(path) && !paths.includes(path)));
  if (answer === null) for (const path of paths) partial.add(path); // unknown: nothing is to be lost
  for (const { path, allowed, conditional, partial: hiding = [] } of answer?.rights ?? []) {
    methods.set(path, new Set([...allowed, ...conditional]));
    if (hiding.includes("GET")) partial.add(path);
  }
  known.set({ caller: name, services: answer === null ? (known.value.services ?? allServices) : new Set(answer.services), methods, partial });
}
