/** The settings that the server writes into the page: paths, and whether it sets cookies. */

export interface Settings {
  readonly title: string;
  readonly version: string;
  /** The path that docgraph is mounted below, such as `/data`; mostly empty. The other paths are below it. */
  readonly root: string;
  /** The whole path of the console itself, such as `/console`. */
  readonly base: string;
  /** The paths of the services by name: graphql, tools, roles, mongo, metrics, openapiPage and so on. */
  readonly paths: Readonly<Record<string, string>>;
  /** The tools below the path of `tools`: packages that are not installed leave some out. */
  readonly tools: readonly string[];
  /** Where the REST API serves the definitions of apps; null: it does not. */
  readonly definitions: string | null;
  /** Whether the console can log in with a password. */
  readonly passwords: boolean;
  /** Whether a login can set a cookie; otherwise the token stays in memory. */
  readonly cookies: boolean;
}

function read(): Settings {
  const content = document.querySelector<HTMLMetaElement>('meta[name="docgraph-settings"]')?.content;
  return JSON.parse(content ?? '{"title":"docgraph","version":"","root":"","base":"/console","paths":{},"tools":[],"definitions":null,"passwords":true,"cookies":false}') as Settings;
}

export const settings: Settings = read();

/** The path of a tool; empty if the server does not have it. */
export function pathOfTool(name: string): string {
  return settings.tools.includes(name) ? pathOf("tools", name) : "";
}

/** The path of a service with further segments, each encoded. */
export function pathOf(service: string, ...segments: readonly string[]): string {
  const root = settings.paths[service];
  if (root === undefined) throw new Error(`the service ${service} is not on`);
  const tail = segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
  return (root === "/" ? "" : root) + tail || "/";
}
