/** The pages of the console, in the order of the rail; each is loaded when it is first opened. */

import type { ComponentType } from "preact";

export interface PageProps {
  /** The segments behind the page's own, such as the uri of an app. */
  readonly rest: readonly string[];
  /** What stands behind `#`. */
  readonly hash: string;
}

export interface PageEntry {
  readonly name: string;
  readonly title: string;
  /** The service that the page lives from; without it the page does not appear. */
  readonly needs: string;
  readonly load: () => Promise<{ default: ComponentType<PageProps> }>;
}

export const pages: readonly PageEntry[] = [
  { name: "apps", title: "Apps", needs: "graphql", load: () => import("../pages/apps/index.js") },
  { name: "ask", title: "Ask", needs: "graphql", load: () => import("../pages/ask/index.js") },
  { name: "data", title: "Data", needs: "mongo", load: () => import("../pages/data/index.js") },
  { name: "access", title: "Access", needs: "tools", load: () => import("../pages/access/index.js") },
  { name: "live", title: "Live", needs: "mongo", load: () => import("../pages/live/index.js") },
  { name: "status", title: "Status", needs: "console", load: () => import("../pages/status/index.js") },
];
