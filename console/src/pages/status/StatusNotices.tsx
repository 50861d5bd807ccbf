/** What is amiss, and what to do about it. */

import { asApiError } from "../../api/error.js";
import { hasMetrics } from "../../api/metrics.js";
import { sessionState } from "../../api/session.js";
import { settings } from "../../api/settings.js";
import { useStore } from "../../api/store.js";
import { ErrorNotice, Notice } from "../../parts/basic.js";
import { tellClock } from "./figures.js";
import type { Looking } from "./useRecording.js";

export function StatusNotices({ looking: { health, error, recording } }: { looking: Looking }) {
  const isAway = health?.isUp === false;
  return (
    <>
      {isAway && (
        <Notice kind="error" title="The database is away">
          <p>The server says: {health.description}. Requests that need it fail until it is back; this page goes on looking.</p>
        </Notice>
      )}
      {!hasMetrics && <Notice title="The figures are off"><p>This server counts nothing for callers: <code>metrics.enabled</code> is <code>false</code>.</p></Notice>}
      {error !== null && <NoFigures error={error} isAway={isAway} />}
      {recording.begunAnewAt !== null && (
        <Notice><p>The figures began anew at {tellClock(recording.begunAnewAt)}: the server was started again, or another instance has answered.</p></Notice>
      )}
    </>
  );
}

function NoFigures({ error, isAway }: { error: unknown; isAway: boolean }) {
  const { login, hasExpired } = useStore(sessionState);
  const { status } = asApiError(error);
  const path = settings.paths["metrics"];
  if (hasExpired) return <Notice kind="warning" title="Your login has ended"><p>Log in again to go on.</p></Notice>;
  if (status === 401 || status === 403) {
    return (
      <Notice title="The figures are not open to you">
        <p>
          {login === null ? "Log in at the top right, or ask" : "Ask"} whoever runs the server for a rule with the predicate <code>path('{path}')</code> for one of your roles. With the option <code>metrics.secured: false</code> everybody may read them.
        </p>
      </Notice>
    );
  }
  if (isAway) return <Notice><p>While the database is away, nobody can say whether you may read the figures.</p></Notice>;
  return <ErrorNotice error={error} title="There are no figures now; the page goes on asking" />;
}
