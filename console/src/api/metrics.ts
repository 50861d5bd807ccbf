/** The figures of the server, in the text format of Prometheus, and the state of its database. */

import { isRecord } from "./error.js";
import { requireRight } from "./rights.js";
import { request, requestJson, send } from "./session.js";
import { pathOf, settings } from "./settings.js";

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

/** What the server has recorded of itself, before the page was opened. */
export interface History {
  /** The running server, all its workers together. */
  readonly instance: string;
  /** Empty unless the caller has the root role. */
  readonly host: string;
  /** Whether the caller may read the operations. */
  readonly hasOperations: boolean;
  readonly points: readonly { readonly at: number; readonly samples: readonly Sample[] }[];
}

export async function readHistory(signal: AbortSignal): Promise<History> {
  await requireRight("GET", pathOf("metrics"));
  const { instance, host, now, operations, points } = await requestJson<{ instance: string; host: string; now: number; operations: boolean; points: readonly StoredPoint[] }>(`${pathOf("metrics")}?history=true`, { signal });
  return { instance, host, hasOperations: operations, points: unfold(points, Date.now() - now * 1000) };
}

/** An operation of an app; `text` is that of the slowest request, without literals. */
export interface Operation {
  readonly app: string;
  /** Empty: it has no name. */
  readonly operation: string;
  readonly text: string;
  readonly count: number;
  readonly failed: number;
  /** How many took as long as each bucket says. */
  readonly times: readonly number[];
  /** Seconds. */
  readonly slowest: number;
  readonly at: number;
}

export interface Operations {
  /** The ends of the buckets, in seconds. */
  readonly bounds: readonly number[];
  readonly operations: readonly Operation[];
}

/** The operations of the last 15 to 30 minutes, for the root role. */
export async function readOperations(signal: AbortSignal): Promise<Operations> {
  await requireRight("GET", pathOf("metrics"));
  return requestJson<Operations>(`${pathOf("metrics")}?operations=true`, { signal });
}

interface StoredPoint {
  readonly at: number;
  readonly values: Readonly<Record<string, number>>;
}

/** Each point with all of its samples: only what has changed is sent. `offset`: ms by which the clock of the browser is ahead. */
export function unfold(points: readonly StoredPoint[], offset: number): History["points"] {
  const known = new Map<string, Sample>();
  return points.map(({ at, values }) => {
    for (const [name, value] of Object.entries(values)) known.set(name, { ...(known.get(name) ?? parseMetrics(`${name} 0`)[0]!), value });
    return { at: at * 1000 + offset, samples: [...known.values()] };
  });
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
