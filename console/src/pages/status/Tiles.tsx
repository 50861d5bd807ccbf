/** The last minute in a few figures. */

import type { ComponentChildren } from "preact";
import type { Health } from "../../api/metrics.js";
import { tellBytes } from "../data/tellFigures.js";
import { tellCount, tellRate, tellSeconds, tellShare } from "./figures.js";
import { type Recording, recent, secondsOf, sumOf } from "./record.js";
import { quantile, sum } from "./tally.js";

const minute = 60_000;

export function Tiles({ recording: { last, intervals }, health }: { recording: Recording; health: Health | null | undefined }) {
  const lately = recent(intervals, minute);
  const all = sum(sumOf(lately, "requests"));
  const seconds = secondsOf(lately);
  const cache = sumOf(lately, "cache");
  const time = (share: number) => tellSeconds(quantile(all, share, last?.bounds ?? []));
  return (
    <dl class="status-tiles" aria-label="The last minute">
      <DatabaseTile health={health} />
      {last !== null && (
        <>
          <Tile name="Requests">{seconds === 0 ? "–" : tellRate(all.count / seconds)}</Tile>
          <Tile name="Rejected 4xx">{tellShare(all.rejected, all.count)}</Tile>
          <Tile name="Failed 5xx" isBad={all.failed > 0}>{tellShare(all.failed, all.count)}</Tile>
          <Tile name="p50">{time(0.5)}</Tile>
          <Tile name="p95">{time(0.95)}</Tile>
          <Tile name="p99">{time(0.99)}</Tile>
          <Tile name="In flight">{tellCount(last.inFlight)}{last.streams > 0 && <span class="soft status-detail"> with {tellCount(last.streams)} {last.streams === 1 ? "stream" : "streams"}</span>}</Tile>
          <Tile name="Streams">{tellCount(last.streams)}<span class="soft status-detail"> {tellCount(last.cursors)} {last.cursors === 1 ? "cursor" : "cursors"}{last.liveQueries > 0 && `, ${tellCount(last.liveQueries)} live`}</span></Tile>
          <Tile name="Cache hits">{tellShare(cache.get("hit")?.count ?? 0, sum(cache).count)}<span class="soft status-detail"> {tellBytes(last.cacheBytes)}</span></Tile>
          <Tile name="Connections" isBad={last.mostConnections > 0 && last.connections >= last.mostConnections}>{tellCount(last.connections)}<span class="soft status-detail"> of {tellCount(last.mostConnections)}</span></Tile>
        </>
      )}
    </dl>
  );
}

/** Shown alone to callers who may not read the metrics. */
function DatabaseTile({ health }: { health: Health | null | undefined }) {
  if (health === undefined) return null;
  if (health === null) return <Tile name="Database">unknown</Tile>;
  return <Tile name="Database" isBad={!health.isUp}>{health.isUp ? <>up <span class="soft status-detail">{health.ms} ms</span></> : "unavailable"}</Tile>;
}

function Tile({ name, isBad = false, children }: { name: string; isBad?: boolean; children: ComponentChildren }) {
  return (
    <div class={isBad ? "status-tile status-tile-bad" : "status-tile"}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
