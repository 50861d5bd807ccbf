/** One stream: what it is given, how the connection is, and its events. */

import { useEffect, useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { type StreamInfo, type StreamValues, listStreams, streamAddress } from "../../api/streams.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { keepVisit } from "../data/visits.js";
import { Controls } from "./Controls.js";
import { EventList } from "./EventList.js";
import { streamVisit } from "./OpenByPath.js";
import { StreamNotice } from "./StreamNotice.js";
import { Trail } from "./Trail.js";
import { useFollower } from "./useFollower.js";
import { ValuesForm } from "./ValuesForm.js";

interface StreamPageProps {
  owner: string | null;
  segments: Segments;
  values: StreamValues;
}

export function StreamPage({ owner, segments, values }: StreamPageProps) {
  const info = useInfo(segments);
  return (
    <div class="page live">
      <Trail segments={segments} />
      <h1>{segments[segments.length - 1]}</h1>
      <Following owner={owner} segments={segments} values={values} info={info} />
    </div>
  );
}

/** The events of a stream as they come, with the ways to pause, filter and resume; without `info` there is nothing to give it. */
export function Following({ owner, segments, values, info }: StreamPageProps & { info?: StreamInfo | null | undefined }) {
  const followed = useFollower(streamAddress(segments, values));
  const [type, setType] = useState("");
  const { contact } = followed;
  const isOpen = contact.kind === "open";
  const valuesMatter = contact.kind !== "refused" || contact.error.status === 400;
  useEffect(() => {
    if (isOpen) keepVisit(owner, segments, streamVisit);
  }, [isOpen]);
  return (
    <>
      {info !== undefined && valuesMatter && <ValuesForm segments={segments} values={values} info={info} />}
      <Controls followed={followed} type={type} onType={setType} />
      <StreamNotice contact={contact} segments={segments} onRetry={followed.retry} />
      <EventList journal={followed.journal} contact={contact} type={type} />
    </>
  );
}

/** The server's description of the stream: null: not for this caller, undefined: not loaded yet. */
function useInfo(segments: Segments): StreamInfo | null | undefined {
  const [info, setInfo] = useState<StreamInfo | null>();
  const path = segments.join("/");
  useCallerEffect((signal) => {
    listStreams(signal).then(
      ({ streams }) => setInfo(streams.find((one) => one.segments.join("/") === path) ?? null),
      () => signal.aborted || setInfo(null), // only some may read the description
    );
  }, [path]);
  return info;
}
