/** Alerts: faults in the last 30 minutes. */

import { Notice } from "../../parts/basic.js";
import { tellClock, tellCount } from "./figures.js";
import type { Interval } from "./record.js";
import { findTroubles } from "./troubles.js";

export function Alerts({ intervals }: { intervals: readonly Interval[] }) {
  const found = findTroubles(intervals);
  if (found.length === 0) return null;
  return (
    <Notice kind="warning" title="In the last 30 minutes">
      <ul class="status-alerts" aria-label="Alerts">
        {found.map(({ name, what, count, last }) => <li key={name}>{tellCount(count)} {what} <span class="soft">(last at {tellClock(last)})</span></li>)}
      </ul>
    </Notice>
  );
}
