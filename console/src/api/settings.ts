/** What the server says of itself in the page: where things are, and whether cookies are set. */

export interface Settings {
  readonly title: string;
  readonly version: string;
  /** The path of the console itself, such as `/console`. */
  readonly base: string;
  /** The paths of the services by name: graphql, tools, roles, mongo, metrics, openapiPage and so on. */
  readonly paths: Readonly<Record<string, string>>;
  /** Where the REST API has the definitions of apps; null where it does not have them. */
  readonly definitions: string | null;
  /** Whether there is a way to log in with a password as the console does. */
  readonly passwords: boolean;
  /** Whether logging in can leave a cookie; otherwise the token is kept in memory. */
  readonly cookies: boolean;
}

function read(): Settings {
  const content = document.querySelector<HTMLMetaElement>('meta[name="docgraph-settings"]')?.content;
  return JSON.parse(content ?? '{"title":"docgraph","version":"","base":"/console","paths":{},"definitions":null,"passwords":true,"cookies":false}') as Settings;
}

export const settings: Settings = read();

/** The path of a service with segments behind it, each encoded. */
export function pathOf(service: string, ...segments: readonly string[]): string {
  const root = settings.paths[service];
  if (root === undefined) throw new Error(`the service ${service} is not on`);
  const tail = segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
  return (root === "/" ? "" : root) + tail || "/";
}
