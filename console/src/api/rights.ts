/** What the caller may do, by `GET /_tools/rights`: only that is offered. The server decides again at each request. */

import { useEffect } from "preact/hooks";
import { ApiError } from "./error.js";
import { requestJson, refusals, sessionState } from "./session.js";
import { pathOf, settings } from "./settings.js";
import { Store, useStore } from "./store.js";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

interface Answer {
  readonly services: readonly string[];
  readonly rights: readonly { readonly path: string; readonly allowed: readonly Method[]; readonly conditional: readonly Method[] }[];
}

interface Known {
  /** Whose rights they are; undefined: nobody's yet. */
  readonly caller: string | null | undefined;
  /** The services that a rule can lead to; null until they are known. */
  readonly services: ReadonlySet<string> | null;
  readonly methods: ReadonlyMap<string, ReadonlySet<string>>;
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
const known = new Store<Known>({ caller: undefined, services: null, methods: new Map() });
const everything: Rights = { isKnown: true, may: () => true };

let wanted = new Set<string>();
let planned: Promise<void> | null = null;

/** The rights at these paths, which are encoded; they are read again for another caller, and after a refusal. */
export function useRights(asked: readonly string[]): Rights {
  const paths = asked.filter((path) => path !== ""); // what is not there
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

/** What is known of this caller: in the moment after a login or logout the rights are still those of another one. */
function ofCaller(all: Known, name: string | null): Known {
  return all.caller === name ? all : { caller: name, services: null, methods: new Map() };
}

/**
 * Throws the refusal of a request that need not be sent: the caller may not do it.
 *
 * What was refused before is asked again: the rules may have changed.
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

/** What a request would be answered that need not be sent: the caller may not do it. */
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

/** Everything that parts of the page want to know at one moment is asked for in one request. */
function want(name: string | null, paths: readonly string[]): Promise<void> {
  known.set(ofCaller(known.value, name));
  for (const path of paths) wanted.add(path);
  planned ??= Promise.resolve().then(async () => {
    planned = null;
    const all = [...wanted];
    wanted = new Set();
    const portions = Array.from({ length: Math.max(1, Math.ceil(all.length / mostPaths)) }, (_, index) => all.slice(index * mostPaths, (index + 1) * mostPaths));
    const caller = known.value.caller ?? null; // of the last that wanted something
    await Promise.all(portions.map((portion) => read(caller, portion)));
  });
  return planned;
}

async function read(name: string | null, paths: readonly string[]): Promise<void> {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  const answer = await requestJson<Answer>(`${pathOf(service)}?${query}`).catch(() => null);
  if (known.value.caller !== name || (sessionState.value.login?.name ?? null) !== name) return; // the answer is for another user
  const methods = new Map(known.value.methods.size > mostKept ? [] : known.value.methods);
  // Who cannot be told is offered everything: the server refuses what is not allowed.
  for (const path of paths) methods.set(path, new Set(answer === null ? ["GET", "POST", "PUT", "PATCH", "DELETE"] : []));
  for (const { path, allowed, conditional } of answer?.rights ?? []) methods.set(path, new Set([...allowed, ...conditional]));
  known.set({ caller: name, services: answer === null ? (known.value.services ?? allServices) : new Set(answer.services), methods });
}
