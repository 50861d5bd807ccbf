/** The streams of the server, or of one collection; callers who may not list them can still open one by its path. */

import { useState } from "preact/hooks";
import { type Segments, dataPath } from "../../api/data.js";
import { useRights } from "../../api/rights.js";
import { asApiError } from "../../api/error.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { type StreamInfo, type StreamList, collectionOf, listStreams, readStreams } from "../../api/streams.js";
import { Button, Empty, ErrorNotice, Loading, Notice } from "../../parts/basic.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { NewStreamDialog } from "./NewStream.js";
import { OpenByPath } from "./OpenByPath.js";
import { addressOf, noValues } from "./places.js";
import { Following } from "./StreamPage.js";
import { Trail } from "./Trail.js";

type Found = StreamList | { readonly error: unknown } | null;

export function Choice({ owner, collection }: { owner: string | null; collection: Segments }) {
  const [found, setFound] = useState<Found>(null);
  const [attempt, setAttempt] = useState(0);
  const [isMaking, setMaking] = useState(false);
  const isTop = collection.length === 0;
  const managed = dataPath(isTop ? ["name"] : collection);
  const rights = useRights([managed]);
  const onNew = rights.may("PATCH", managed) ? () => setMaking(true) : null;
  useCallerEffect((signal) => {
    const asked = isTop ? listStreams(signal) : readStreams(collection, signal).then((streams) => ({ streams, leftOut: 0 }));
    asked.then(setFound, (error: unknown) => signal.aborted || setFound({ error }));
  }, [attempt]);
  const isListed = found !== null && "streams" in found;
  const defaultStream = isListed ? found.streams.find(needsNothing) : undefined;
  return (
    <div class="page">
      <Trail segments={collection} />
      <div class="data-head">
        <h1>{isTop ? "Live" : collection[collection.length - 1]}</h1>
        {isListed && onNew !== null && found.streams.length > 0 && <Button onClick={onNew}>New stream</Button>}
      </div>
      {found === null && <Loading what="Loading the streams" />}
      {found !== null && "error" in found && <NotListed error={found.error} isTop={isTop} onRetry={() => setAttempt(attempt + 1)} />}
      {isListed && <StreamNames streams={found.streams} isTop={isTop} onNew={onNew} />}
      {isListed && found.leftOut > 0 && <p class="soft">{found.leftOut} collections are not listed here: open one by its path.</p>}
      {isListed && defaultStream !== undefined && <Running owner={owner} stream={defaultStream} />}
      {found !== null && !isListed && <OpenByPath owner={owner} needsVisits />}
      {isListed && (
        <details class="live-others">
          <summary>Other streams</summary>
          <OpenByPath owner={owner} needsVisits={false} />
        </details>
      )}
      {isMaking && <NewStreamDialog collection={collection} onClose={() => setMaking(false)} />}
    </div>
  );
}

/** A stream that needs no values. */
function needsNothing({ variables }: StreamInfo): boolean {
  return variables.every((one) => !one.isRequired);
}

/** The first stream starts immediately: events appear without a click. */
function Running({ owner, stream: { segments } }: { owner: string | null; stream: StreamInfo }) {
  return (
    <section class="live-running" aria-label="Running stream">
      <h2><a href={addressOf(segments)}>{[...collectionOf(segments), segments[segments.length - 1]].join(" / ")}</a></h2>
      <Following key={segments.join("/")} owner={owner} segments={segments} values={noValues} />
    </section>
  );
}

function StreamNames({ streams, isTop, onNew }: { streams: readonly StreamInfo[]; isTop: boolean; onNew: (() => void) | null }) {
  if (streams.length === 0) {
    return (
      <Empty title={isTop ? "No streams yet" : "This collection has no stream"}>
        <p>A stream reports the changes of a collection as they happen. You need the permission to manage the collection to declare one.</p>
        {onNew !== null && <p><Button kind="primary" onClick={onNew}>New stream</Button></p>}
      </Empty>
    );
  }
  return (
    <ul class="data-names" aria-label="Streams">
      {streams.map((one) => (
        <li key={one.segments.join("/")}>
          <a class="live-name" href={addressOf(one.segments)}>
            <span>{isTop && <span class="live-collection">{collectionOf(one.segments).join(" / ")} / </span>}{one.segments[one.segments.length - 1]}</span>
            <Needs stream={one} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function Needs({ stream: { variables, condition } }: { stream: StreamInfo }) {
  const needed = variables.filter((one) => one.isRequired).map((one) => one.name);
  const possible = [...variables.filter((one) => !one.isRequired).map((one) => one.name), ...(condition === null ? [] : [condition])];
  const words = [needed.length > 0 ? `needs ${needed.join(", ")}` : "", possible.length > 0 ? `takes ${possible.join(", ")}` : ""].filter(Boolean);
  return words.length === 0 ? null : <span class="soft live-needs">{words.join("; ")}</span>;
}

function NotListed({ error, isTop, onRetry }: { error: unknown; isTop: boolean; onRetry: () => void }) {
  const { login } = useStore(sessionState);
  const { status, code } = asApiError(error);
  if (status === 401 || status === 403 || code === "no-description") {
    return (
      <Notice title="You may not list the streams">
        <p>
          {login === null ? "Log in at the top right, or open" : "You may still have the permission to read some of them: open"} one by its path.
          {isTop ? " The list is in the description of the server (/openapi.json)." : " The list is among the properties of the collection (_meta)."}
        </p>
      </Notice>
    );
  }
  return (
    <>
      <ErrorNotice error={error} title="The streams could not be listed" />
      <div><Button onClick={onRetry}>Try again</Button></div>
    </>
  );
}
