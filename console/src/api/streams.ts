/** The change streams of collections: a list, and their addresses. */

import { type Segments, dataPath, typesKept } from "./data.js";
import { ApiError, isRecord } from "./error.js";
import { requireRight } from "./rights.js";
import { request, requestJson } from "./session.js";
import { settings } from "./settings.js";

export interface StreamInfo {
  /** The path below that of the REST API, decoded, such as `notes/_streams/all`. */
  readonly segments: Segments;
  /** Names of variables, of those that have to be given first. */
  readonly variables: readonly { readonly name: string; readonly isRequired: boolean }[];
  /** The parameter by which a client chooses among the events; null: there is none. */
  readonly condition: string | null;
}

/** The values for a stream, as typed. */
export interface StreamValues {
  /** JSON with the variables; empty: none. */
  readonly variables: string;
  /** Name and value of the condition; an empty value: all events. */
  readonly condition: readonly [name: string, value: string] | null;
}

export interface StreamList {
  readonly streams: readonly StreamInfo[];
  /** Collections that the description of the server leaves out. */
  readonly leftOut: number;
}

const between = "_streams";

/** Whether a path is that of a stream; else it is that of a collection. */
export function isStream(segments: Segments): boolean {
  return segments[segments.length - 2] === between;
}

/** The path of a stream of a collection. */
export function streamOf(collection: Segments, uri: string): Segments {
  return [...collection, between, uri];
}

/** The collection of a stream. */
export function collectionOf(stream: Segments): Segments {
  return stream.slice(0, -2);
}

/** The address at which a stream is followed: types kept, and each event with its time. */
export function streamAddress(stream: Segments, { variables, condition }: StreamValues): string {
  const given = variables.trim() === "" ? "" : `&avars=${encodeURIComponent(variables)}`;
  const chosen = condition === null || condition[1] === "" ? "" : `&${condition.map(encodeURIComponent).join("=")}`;
  return `${dataPath(stream)}?${typesKept}&event-ids=true${given}${chosen}`;
}

/** Every stream of the server; throws `ApiError` for callers who may not read its description. */
export async function listStreams(signal: AbortSignal): Promise<StreamList> {
  const described = settings.paths["openapi"];
  if (described === undefined) throw new ApiError(404, "no-description", "The description of the server is off.");
  await requireRight("GET", described);
  const document = await requestJson<Record<string, unknown>>(described, { signal });
  const leftOut = document["x-docgraph-collections-left-out"];
  const paths = isRecord(document["paths"]) ? document["paths"] : {};
  const root = settings.paths["mongo"] === "/" ? "" : (settings.paths["mongo"] ?? "");
  const own = Object.entries(paths).filter(([path]) => path.startsWith(`${root}/`) && !path.includes("{") && path.includes(`/${between}/`));
  const streams = own.map(([path, operations]) => describe(path.slice(root.length + 1).split("/").map(decodeURIComponent), operations));
  return { streams, leftOut: typeof leftOut === "number" ? leftOut : 0 };
}

/** The streams of one collection that the caller may open. */
export async function readStreams(collection: Segments, signal: AbortSignal): Promise<readonly StreamInfo[]> {
  const path = `${dataPath(collection)}/${between}`;
  await requireRight("GET", path);
  const listed = await requestJson<unknown>(path, { signal });
  return (Array.isArray(listed) ? listed.filter(isRecord) : []).map((one) => ({
    segments: streamOf(collection, String(one["uri"])),
    variables: describeVariables(one["variables"]),
    condition: typeof one["notify_when"] === "string" ? one["notify_when"] : null,
  }));
}

/** The names of all streams of a collection, from its properties: for callers who may manage it. */
async function readNames(collection: Segments, signal: AbortSignal): Promise<readonly string[]> {
  const properties = await requestJson<Record<string, unknown>>(`${dataPath(collection)}/_meta`, { signal }).catch((error: unknown): Record<string, unknown> => {
    if (error instanceof ApiError && error.status === 404) return {}; // nothing was written yet
    throw error;
  });
  const streams: unknown = properties["streams"];
  return Array.isArray(streams) ? streams.filter(isRecord).map((one) => String(one["uri"])) : [];
}

function describeVariables(listed: unknown): StreamInfo["variables"] {
  const variables = Array.isArray(listed) ? listed.filter(isRecord) : [];
  return variables.map((one) => ({ name: String(one["name"]), isRequired: one["required"] === true }));
}

/** Declare a stream of all changes of a collection; its other streams stay. */
export async function declareStream(collection: Segments, uri: string): Promise<void> {
  const known = await readNames(collection, new AbortController().signal);
  if (known.includes(uri)) throw new ApiError(409, "http-error", "");
  await request(dataPath(collection), { method: "PATCH", json: { $push: { streams: { uri, stages: [] } } } });
}

function describe(segments: Segments, operations: unknown): StreamInfo {
  const get = isRecord(operations) ? operations["get"] : undefined;
  const parameters: unknown = isRecord(get) ? get["parameters"] : undefined;
  const named = Array.isArray(parameters) ? parameters.filter(isRecord).filter((one) => one["in"] === "query") : [];
  const schema = schemaOf(named.find((one) => one["name"] === "avars"));
  const required: unknown = schema["required"];
  const needed = Array.isArray(required) ? required.map(String) : [];
  const names = isRecord(schema["properties"]) ? Object.keys(schema["properties"]) : [];
  const variables = names.map((name) => ({ name, isRequired: needed.includes(name) })).sort((a, b) => Number(b.isRequired) - Number(a.isRequired));
  const condition = named.find((one) => one["name"] !== "avars")?.["name"];
  return { segments, variables, condition: typeof condition === "string" ? condition : null };
}

function schemaOf(parameter: Record<string, unknown> | undefined): Record<string, unknown> {
  const content = parameter?.["content"];
  const media = isRecord(content) ? Object.values(content)[0] : undefined;
  return isRecord(media) && isRecord(media["schema"]) ? media["schema"] : {};
}
