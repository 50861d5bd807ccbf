/** API keys, by the service `/keys`: those of the caller, all of them for administrators. */

import { request, requestJson } from "./session.js";
import { pathOf, settings } from "./settings.js";

export interface ApiKey {
  readonly _id: string;
  readonly name: string;
  readonly owner: string;
  readonly roles: readonly string[];
  readonly networks: readonly string[];
  readonly notAfter: string;
  readonly lastUsedAt?: string;
  readonly active: boolean;
}

export interface KeyOrder {
  readonly name: string;
  /** A date, such as `2027-03-31`: the key ends when it begins, in UTC. */
  readonly until: string;
  readonly roles: readonly string[];
  readonly networks: readonly string[];
  /** Properties that are read from the owner. */
  readonly inherits: readonly string[];
}

interface Page {
  readonly keys: readonly ApiKey[];
  /** The id to continue after. */
  readonly next?: string;
}

/** Whether this server knows keys. */
export const hasKeys = "apiKeys" in settings.paths;

export async function readKeys(after: string, signal: AbortSignal): Promise<Page> {
  return requestJson<Page>(`${pathOf("apiKeys")}?${new URLSearchParams({ after }).toString()}`, { signal });
}

/** Make a key; its text comes once. */
export async function makeKey({ until, ...order }: KeyOrder): Promise<string> {
  const json = { ...order, notAfter: `${until}T00:00:00Z` };
  return (await requestJson<{ key: string }>(pathOf("apiKeys"), { method: "POST", json })).key;
}

/** Give a key another secret; the old one stays valid for a day. */
export async function rotateKey({ _id }: ApiKey): Promise<string> {
  return (await requestJson<{ key: string }>(pathOf("apiKeys", _id), { method: "POST" })).key;
}

export async function revokeKey({ _id }: ApiKey): Promise<void> {
  await request(pathOf("apiKeys", _id), { method: "DELETE" });
}
