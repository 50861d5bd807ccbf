/** The pages of the console, in the order of the rail; each is loaded when it is first opened. */

import type { ComponentType } from "preact";
import { useRights, useServices } from "../api/rights.js";
import { pathOf, settings } from "../api/settings.js";
import type { PageProps } from "./pageProps.js";

export interface PageEntry {
  readonly name: string;
  readonly title: string;
  /** The service that the page needs; without it the page does not appear. */
  readonly needs: string;
  /** What a caller has to be allowed to GET for the page to appear; without it, a rule for the service is enough. */
  readonly reads?: () => string;
  readonly load: () => Promise<{ default: ComponentType<PageProps> }>;
}

const all: readonly PageEntry[] = [
  { name: "ask", title: "Ask", needs: "graphql", load: () => import("../pages/ask/index.js") },
  { name: "apps", title: "Apps", needs: "graphql", load: () => import("../pages/apps/index.js") },
  { name: "data", title: "Data", needs: "mongo", load: () => import("../pages/data/index.js") },
  { name: "access", title: "Access", needs: "tools", reads: () => pathOf("tools", "realm"), load: () => import("../pages/access/index.js") },
  { name: "live", title: "Live", needs: "mongo", load: () => import("../pages/live/index.js") },
  { name: "status", title: "Status", needs: "console", reads: () => settings.paths["metrics"] ?? "", load: () => import("../pages/status/index.js") },
];

/** The pages whose services are on; an address leads to each of them. */
export const pages = all.filter((page) => page.needs in settings.paths);

const read = pages.flatMap(({ reads }) => (reads === undefined ? [] : [reads()]));

/** The pages that the caller can use; none until that is known. All callers see the pages of their apps. */
export function useOpenPages(): readonly PageEntry[] {
  const rights = useRights(read);
  const services = useServices();
  if (services === null || !rights.isKnown) return [];
  return pages.filter(({ needs, reads }) => (reads !== undefined ? rights.may("GET", reads()) : needs === "graphql" || services.has(needs)));
}
