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
  /** The lines of its sign, in a square of 20. */
  readonly sign: string;
  /** The service that the page lives from; without it the page does not appear. */
  readonly needs: string;
  readonly load: () => Promise<{ default: ComponentType<PageProps> }>;
}

export const pages: readonly PageEntry[] = [
  {
    name: "apps",
    title: "Apps",
    sign: "M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM11 11h6v6h-6z",
    needs: "graphql",
    load: () => import("../pages/apps/index.js"),
  },
  {
    name: "ask",
    title: "Ask",
    sign: "M3 4h14v12H3zM6 8l2.5 2L6 12M10 12.5h4",
    needs: "graphql",
    load: () => import("../pages/ask/index.js"),
  },
];
