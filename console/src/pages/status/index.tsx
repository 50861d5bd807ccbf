/** The page Status: the metrics of the last minutes. */

import { hasHealth, hasMetrics } from "../../api/metrics.js";
import { useOwner } from "../../api/owner.js";
import { settings } from "../../api/settings.js";
import { Loading } from "../../parts/basic.js";
import { Charts } from "./Charts.js";
import { Alerts } from "./Alerts.js";
import { tellClock, tellMoment, tellProcesses } from "./figures.js";
import { OperationTable } from "./OperationTable.js";
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
  const { recording, health, error, server } = looking;
  const { intervals, last } = recording;
  const [first] = intervals;
  return (
    <div class="page status">
      <h1>Status</h1>
      {server !== null && <p class="soft status-note">Instance <code>{server.instance}</code> on {server.host}{last !== null && `, started ${tellMoment(last.startedAt * 1000)}, ${tellProcesses(last.processes)}`}</p>}
      <StatusNotices looking={looking} />
      {first !== undefined && <Alerts intervals={intervals} />}
      {last !== null && <p class="soft status-note">The last minute</p>}
      <Tiles recording={recording} health={health} />
      {hasMetrics && error === null && first === undefined && <Loading what="Reading the metrics for a few seconds" />}
      {first !== undefined && last !== null && (
        <>
          <Charts intervals={intervals} bounds={last.bounds} />
          <p class="soft status-note">Since {tellClock(first.from)}, the last 30 minutes at most, for all workers of this instance. Without the requests to {settings.paths["metrics"]}{hasHealth && ` and ${settings.paths["database-probe"]}`}, which the page itself sends.</p>
          {server?.hasOperations && <OperationTable />}
          <Tables intervals={intervals} bounds={last.bounds} />
        </>
      )}
    </div>
  );
}
