/** A definition that a user edits: texts, and the members without an editor. */

import { type AppId, type StoredApp } from "../../api/apps.js";
import { isRecord } from "../../api/error.js";
import { writeMembers } from "../../api/members.js";
import type { Texts as ToldTexts } from "../../api/tools.js";
import { layOut } from "../../parts/json.js";

export type Part = "schema" | "mappings" | "descriptor";
export type Texts = Readonly<Record<Part, string>>;

/** Members that are kept as they are, each as JSON. */
export type Others = readonly (readonly [name: string, json: string])[];

export interface Version {
  /** Of the stored definition; null: nothing is stored. */
  readonly etag: string | null;
  readonly texts: Texts;
  readonly others: Others;
}

export const parts: readonly Part[] = ["schema", "mappings", "descriptor"];

/** The definition as JSON, with mappings and descriptor as the texts that they are. */
export function writeDefinition(id: AppId, { texts, others }: Version): string {
  const own = parts.filter((part) => part !== "descriptor" || texts.descriptor.trim() !== "");
  return writeMembers([["_id", id], ...own.map((part) => [part, JSON.stringify(texts[part])] as const), ...others]);
}

/** The definition that is stored, as JSON. */
export function writeStoredDefinition(id: AppId, { members }: StoredApp): string {
  return writeMembers([["_id", id], ...members]);
}

/** What is stored as texts; without the server's texts they are JSON. */
export function readVersion({ etag, members }: StoredApp, told: ToldTexts = {}): Version {
  const schema = members.get("schema");
  const texts = {
    schema: schema?.startsWith('"') ? (JSON.parse(schema) as string) : (schema ?? ""),
    mappings: told.mappings ?? spread(members.get("mappings")),
    descriptor: told.descriptor ?? spread(members.get("descriptor")),
  };
  return { etag, texts, others: [...members].filter(([name]) => !Object.hasOwn(texts, name)) };
}

function spread(json = ""): string {
  return layOut(json, Number.POSITIVE_INFINITY);
}

export function haveSameTexts(one: Version, other: Version): boolean {
  return parts.every((part) => one.texts[part] === other.texts[part]);
}

/** What the browser has stored, if it is a valid version. */
export function asVersion(value: unknown): Version | null {
  if (!isRecord(value) || !isRecord(value["texts"]) || !Array.isArray(value["others"])) return null;
  const { texts, others, etag } = value;
  const areTexts = parts.every((part) => typeof texts[part] === "string");
  const areOthers = others.every((one) => Array.isArray(one) && one.length === 2 && one.every((text) => typeof text === "string"));
  if (!areTexts || !areOthers || (etag !== null && typeof etag !== "string")) return null;
  return value as unknown as Version;
}

/** A definition to store without the tools, which parse the YAML: all of it must be JSON. */
export function writePlain(id: AppId, { texts, others }: Version): string {
  const members: [string, string][] = [["_id", id], ["schema", JSON.stringify(texts.schema)]];
  for (const part of ["mappings", "descriptor"] as const) {
    if (texts[part].trim() === "") continue;
    JSON.parse(texts[part]);
    members.push([part, texts[part]]);
  }
  return writeMembers([...members, ...others]);
}
