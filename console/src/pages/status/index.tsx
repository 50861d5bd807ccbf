/** The page Status: the metrics of the last minutes. */

import { hasHealth, hasMetrics } from "../../api/metrics.js";
import { useOwner } from "../../api/owner.js";
import { settings } from "../../api/settings.js";
import { Loading } from "../../parts/basic.js";
import { Charts } from "./Charts.js";
import { tellClock } from "./figures.js";
import { StatusNotices } from "./StatusNotices.js";
import { Tables } from "./Tables.js";
import { Tiles } from "./Tiles.js";
import { useRecording } from "./useRecording.js";

export default function StatusPage() {
  const owner = useOwner();
  return <Status key={owner ?? ""} />;
}

function Status() {
  const looking = useRecording();
  const { recording, health, error } = looking;
  const { intervals, last } = recording;
  const [first] = intervals;
  return (
    <div class="page status">
      <h1>Status</h1>
      <StatusNotices looking={looking} />
      {last !== null && <p class="soft status-note">The last minute</p>}
      <Tiles recording={recording} health={health} />
      {hasMetrics && error === null && first === undefined && <Loading what="Reading the metrics for a few seconds" />}
      {first !== undefined && last !== null && (
        <>
          <Charts intervals={intervals} bounds={last.bounds} />
          <p class="soft status-note">Since {tellClock(first.from)}, the last 15 minutes at most, while this page was visible. Without the requests to {settings.paths["metrics"]}{hasHealth && ` and ${settings.paths["database-probe"]}`}, which the page itself sends.</p>
          <Tables intervals={intervals} bounds={last.bounds} />
        </>
      )}
    </div>
  );
}
