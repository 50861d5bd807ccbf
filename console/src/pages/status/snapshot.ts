/** The metrics of one moment, as far as the page shows them. */

import type { Health, Sample } from "../../api/metrics.js";
import { type Tallies, type Tally, add, nothing } from "./tally.js";

export interface Snapshot {
  /** ms, by the clock of the browser. */
  readonly at: number;
  /** When the instance was started: the counts of another one are not comparable. */
  readonly startedAt: number;
  readonly bounds: readonly number[];
  /** By service and method. */
  readonly requests: Tallies;
  /** By the name of the command. */
  readonly commands: Tallies;
  /** By app and name of a stored operation. */
  readonly operations: Tallies;
  /** Without the one that asked for these figures. */
  readonly inFlight: number;
  readonly streams: number;
  readonly cursors: number;
  readonly liveQueries: number;
  /** Connections to the database in use, and at most. */
  readonly connections: number;
  readonly mostConnections: number;
  readonly cacheBytes: number;
  readonly processes: number;
  /** By the result: hit, miss, bypass. */
  readonly cache: Tallies;
  /** Things that should not happen, by the name of their metric. */
  readonly troubles: Tallies;
  readonly health: Health | null;
}

type Labels = Readonly<Record<string, string>>;

const ownServices = ["metrics", "database-probe"]; // what this page itself asks
/** What happened, for one and for several: `request{/s} {was/were}`. */
export const troubles: Readonly<Record<string, string>> = {
  docgraph_workers_lost_total: "worker process{/es} ended unexpectedly",
  docgraph_http_failures_total: "request{/s} ended in an unexpected exception",
  docgraph_overloaded_total: "request{/s} {was/were} rejected with 503: the server has too much to do",
  docgraph_background_failures_total: "background task{/s} failed",
  docgraph_plugin_failures_total: "exception{/s} of plugins",
  docgraph_loop_lags_total: "delay{/s} of a worker",
  docgraph_logins_blocked_total: "login{/s} {was/were} blocked by the brute force guard",
  docgraph_stream_stages_failed_total: "event{/s} failed in a stage of a change stream",
  docgraph_log_lines_dropped_total: "log line{/s} {was/were} dropped",
};
const separator = "\n"; // not part of any name of a service, a method or an app

export function joinNames(...names: readonly string[]): string {
  return names.join(separator);
}

export function splitNames(key: string): readonly string[] {
  return key.split(separator);
}

/** `own`: requests in flight that are this page's. */
export function takeSnapshot(at: number, samples: readonly Sample[], health: Health | null, own = 1): Snapshot {
  const byName = groupByName(samples);
  const find = (name: string) => byName.get(name) ?? [];
  const total = (name: string) => find(name).reduce((all, one) => all + one.value, 0);
  const bounds = findBounds(find("docgraph_http_request_duration_seconds_bucket"));
  const isForeign = ({ labels }: Sample) => !ownServices.includes(labels["service"] ?? "");
  const nameRequest = ({ service = "", method = "" }: Labels) => joinNames(service, method);
  const nameCommand = ({ command = "" }: Labels) => command;
  const nameOperation = ({ app = "", operation = "" }: Labels) => joinNames(app, operation);
  return {
    at,
    startedAt: total("docgraph_start_time_seconds"),
    bounds,
    requests: tally(find("docgraph_http_requests_total").filter(isForeign), find("docgraph_http_request_duration_seconds_bucket").filter(isForeign), nameRequest, bounds),
    commands: tally(find("docgraph_database_commands_total"), find("docgraph_database_command_duration_seconds_bucket"), nameCommand, bounds),
    operations: tally(find("docgraph_graphql_operations_total"), find("docgraph_graphql_operation_duration_seconds_bucket"), nameOperation, bounds),
    inFlight: Math.max(0, total("docgraph_http_requests_in_flight") - own),
    streams: total("docgraph_stream_clients"),
    cursors: total("docgraph_stream_cursors"),
    liveQueries: total("docgraph_live_queries"),
    connections: total("docgraph_database_connections"),
    mostConnections: total("docgraph_database_connections_max"),
    cacheBytes: total("docgraph_cache_bytes"),
    processes: total("docgraph_processes"),
    cache: tally(find("docgraph_cache_requests_total"), [], ({ result = "" }) => result, bounds),
    troubles: tally(Object.keys(troubles).flatMap(find).map((one) => ({ ...one, labels: { metric: one.name } })), [], ({ metric = "" }) => metric, bounds),
    health,
  };
}

function groupByName(samples: readonly Sample[]): ReadonlyMap<string, readonly Sample[]> {
  const found = new Map<string, Sample[]>();
  for (const one of samples) {
    const known = found.get(one.name);
    if (known === undefined) found.set(one.name, [one]);
    else known.push(one);
  }
  return found;
}

function findBounds(buckets: readonly Sample[]): readonly number[] {
  const ends = new Set(buckets.map((one) => Number(one.labels["le"])).filter(Number.isFinite));
  return [...ends].sort((a, b) => a - b);
}

function tally(counts: readonly Sample[], buckets: readonly Sample[], nameOf: (labels: Labels) => string, bounds: readonly number[]): Tallies {
  const found = new Map<string, Tally>();
  for (const { labels, value } of counts) {
    const status = Number(labels["status"] ?? (labels["ok"] === "false" ? 500 : 200));
    const one = { ...nothing, count: value, rejected: status >= 400 && status < 500 ? value : 0, failed: status >= 500 ? value : 0 };
    found.set(nameOf(labels), add(found.get(nameOf(labels)) ?? nothing, one));
  }
  for (const [name, times] of collectTimes(buckets, nameOf, bounds)) found.set(name, add(found.get(name) ?? nothing, { ...nothing, times }));
  return found;
}

/** How many are in each bucket; Prometheus counts those of all buckets before it as well. */
function collectTimes(buckets: readonly Sample[], nameOf: (labels: Labels) => string, bounds: readonly number[]): ReadonlyMap<string, readonly number[]> {
  const sums = new Map<string, number[]>();
  for (const { labels, value } of buckets) {
    const known = sums.get(nameOf(labels)) ?? Array.from({ length: bounds.length + 1 }, () => 0);
    const end = bounds.indexOf(Number(labels["le"]));
    known[end < 0 ? bounds.length : end]! += value;
    sums.set(nameOf(labels), known);
  }
  return new Map([...sums].map(([name, all]) => [name, all.map((one, at) => one - (at === 0 ? 0 : all[at - 1]!))]));
}
