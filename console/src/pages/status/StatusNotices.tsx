/** What is wrong, and what to do about it. */

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
        <Notice kind="error" title="The database is unavailable">
          <p>The server reports: {health.description}. Requests that need the database fail until it is available again. This page keeps checking.</p>
        </Notice>
      )}
      {!hasMetrics && <Notice title="Metrics are off"><p>This server has no metrics: <code>metrics.enabled</code> is <code>false</code>.</p></Notice>}
      {error !== null && <NoFigures error={error} isAway={isAway} />}
      {recording.begunAnewAt !== null && (
        <Notice><p>The metrics restarted at {tellClock(recording.begunAnewAt)}: the server was restarted, or another instance has answered.</p></Notice>
      )}
    </>
  );
}

function NoFigures({ error, isAway }: { error: unknown; isAway: boolean }) {
  const { login, hasExpired } = useStore(sessionState);
  const { status } = asApiError(error);
  const path = settings.paths["metrics"];
  if (hasExpired) return <Notice kind="warning" title="Your login has ended"><p>Log in again to continue.</p></Notice>;
  if (status === 401 || status === 403) {
    return (
      <Notice title="You may not read the metrics">
        <p>
          {login === null ? "Log in at the top right, or ask" : "Ask"} an administrator of the server for a rule with the predicate <code>path('{path}')</code> for one of your roles. With the option <code>metrics.secured: false</code> all callers may read them.
        </p>
      </Notice>
    );
  }
  if (isAway) return <Notice><p>The server cannot check whether you may read the metrics while the database is unavailable.</p></Notice>;
  return <ErrorNotice error={error} title="The metrics could not be read; the page keeps trying" />;
}
