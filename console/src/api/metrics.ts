/** The figures of the server, in the text format of Prometheus, and the state of its database. */

import { isRecord } from "./error.js";
import { request, send } from "./session.js";
import { pathOf, settings } from "./settings.js";
import { requireRight } from "./rights.js";

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Health {
  readonly isUp: boolean;
  readonly description: string;
  readonly ms: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export const hasMetrics = "metrics" in settings.paths;
export const hasHealth = "database-probe" in settings.paths;

export async function readMetrics(signal: AbortSignal): Promise<readonly Sample[]> {
  await requireRight("GET", pathOf("metrics"));
  const response = await request(pathOf("metrics"), { signal });
  return parseMetrics(await response.text());
}

/** The state of the database; "unavailable" is a state, too. */
export async function readHealth(signal: AbortSignal): Promise<Health | null> {
  await requireRight("GET", pathOf("database-probe"));
  const response = await send(pathOf("database-probe"), { signal });
  const body: unknown = await response.json().catch(() => null);
  if (!isRecord(body) || typeof body["latencyMs"] !== "number") return null;
  return { isUp: response.ok, description: typeof body["description"] === "string" ? body["description"] : "", ms: body["latencyMs"] };
}

export function parseMetrics(text: string): readonly Sample[] {
  const samples: Sample[] = [];
  for (const one of text.split("\n")) {
    const [, name, labels = "", value] = line.exec(one) ?? [];
    if (name !== undefined) samples.push({ name, labels: parseLabels(labels), value: Number(value === "+Inf" ? Infinity : value) });
  }
  return samples;
}

function parseLabels(text: string): Readonly<Record<string, string>> {
  const found = [...text.matchAll(label)].map(([, name, value]) => [name, value!.replace(/\\(.)/g, (_, sign: string) => (sign === "n" ? "\n" : sign))]);
  return Object.fromEntries(found) as Record<string, string>;
}
