/** `POST /_tools/history`: the versions of an app, and what differs between two of them. */

import { readMembers, writeMembers } from "./members.js";
import { request, requestJson } from "./session.js";
import { pathOfTool } from "./settings.js";
import type { Comparison } from "./tools.js";

export interface AppVersion {
  readonly version: number;
  readonly at: string;
  readonly by: string;
  readonly change: string;
  readonly parts: readonly string[];
  readonly breaking: number;
}

export const historyPath = pathOfTool("history");

const headers = { "Content-Type": "application/json" };

/** The latest first. */
export async function listVersions(app: string, signal: AbortSignal): Promise<readonly AppVersion[]> {
  const { versions } = await requestJson<{ versions: AppVersion[] }>(historyPath, { method: "POST", json: { app }, signal });
  return versions.reverse();
}

export function compareVersions(app: string, version: number, since: number, signal: AbortSignal): Promise<Comparison> {
  return requestJson<Comparison>(historyPath, { method: "POST", json: { app, version, since }, signal });
}

/** The definition of a version, as JSON in which no digit is lost. */
export async function readVersionOf(app: string, version: number): Promise<string> {
  const body = writeMembers([["app", JSON.stringify(app)], ["version", String(version)]]);
  return readMembers(await (await request(historyPath, { method: "POST", headers, body })).text()).get("definition") ?? "{}";
}

/** The pair to compare when the user asks what a version has changed: with the one before it that has a definition. */
export function findPair(versions: readonly AppVersion[], version: number): readonly [version: number, since: number] | null {
  const before = versions.find((one) => one.version < version && hasDefinition(one));
  return before === undefined ? null : [version, before.version];
}

export function hasDefinition({ change }: AppVersion): boolean {
  return change !== "deleted";
}
