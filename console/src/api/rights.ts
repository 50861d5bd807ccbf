/** The permissions of the caller, from `GET /_tools/rights`: the page offers only these. The server checks each request again. */

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
  /** The services that a rule can open; null until they are known. */
  readonly services: ReadonlySet<string> | null;
  readonly methods: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface Rights {
  /** False until the server has answered for all of the paths. */
  readonly isKnown: boolean;
  may(method: Method, path: string): boolean;
}

const service = "ownRights";
const mostPaths = 40; // in one request
const mostKept = 1000;
const nothing: Known = { services: null, methods: new Map() };
const known = new Store<Known>(nothing);
const everything: Rights = { isKnown: true, may: () => true };

let caller: string | null | undefined;
let wanted = new Set<string>();
let isPlanned = false;

/** The permissions at these paths, which are encoded; read again for another caller, and after a rejection. */
export function useRights(asked: readonly string[]): Rights {
  const paths = asked.filter((path) => path !== ""); // a service that is off
  const { login, isReady, hasExpired } = useStore(sessionState);
  const refused = useStore(refusals);
  const { methods } = useStore(known);
  const isOff = !(service in settings.paths);
  useEffect(() => {
    if (isOff || !isReady || hasExpired) return;
    want(login?.name ?? null, paths);
  }, [JSON.stringify(paths), login?.name, isReady, hasExpired, refused]);
  if (isOff) return everything;
  return { isKnown: paths.every((path) => methods.has(path)), may: (method, path) => methods.get(path)?.has(method) ?? false };
}

/** The error that the request would get, without sending it: the caller may not do this. */
export function refusal(): ApiError {
  return new ApiError(sessionState.value.login === null ? 401 : 403, "http-error", "");
}

/** Which services the caller can use at all; null until it is known. */
export function useServices(): ReadonlySet<string> | null {
  useRights([]);
  const { services } = useStore(known);
  return service in settings.paths ? services : allServices;
}

const allServices: ReadonlySet<string> = new Set(Object.keys(settings.paths));

/** One request for everything that the parts of the page need at the same moment. */
function want(name: string | null, paths: readonly string[]): void {
  if (caller !== name) {
    caller = name;
    known.set(nothing);
  }
  for (const path of paths) wanted.add(path);
  if (isPlanned) return;
  isPlanned = true;
  queueMicrotask(() => {
    isPlanned = false;
    const all = [...wanted];
    wanted = new Set();
    for (let from = 0; from === 0 || from < all.length; from += mostPaths) void read(name, all.slice(from, from + mostPaths));
  });
}

async function read(name: string | null, paths: readonly string[]): Promise<void> {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  const answer = await requestJson<Answer>(`${pathOf(service)}?${query}`).catch(() => null);
  if (caller !== name) return; // the answer is for another user
  const methods = new Map(known.value.methods.size > mostKept ? [] : known.value.methods);
  // Without an answer the page offers everything: the server rejects what is not allowed.
  for (const path of paths) methods.set(path, new Set(answer === null ? ["GET", "POST", "PUT", "PATCH", "DELETE"] : []));
  for (const { path, allowed, conditional } of answer?.rights ?? []) methods.set(path, new Set([...allowed, ...conditional]));
  known.set({ services: answer === null ? (known.value.services ?? allServices) : new Set(answer.services), methods });
}
