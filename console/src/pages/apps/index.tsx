/** The page Apps. */

import { Empty } from "../../parts/basic.js";
import type { PageProps } from "../../shell/pages.js";

export default function AppsPage(_: PageProps) {
  return (
    <div class="page">
      <h1>Apps</h1>
      <Empty title="Nothing here yet" />
    </div>
  );
}
