/** Why there is no connection, and what to do about it. */

import type { ComponentChildren } from "preact";
import type { Segments } from "../../api/data.js";
import type { ApiError } from "../../api/error.js";
import { dataPath } from "../../api/data.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { collectionOf } from "../../api/streams.js";
import { Button, Notice } from "../../parts/basic.js";
import type { Contact } from "./follower.js";
import { addressOf } from "./places.js";

interface StreamNoticeProps {
  contact: Contact;
  segments: Segments;
  onRetry: () => void;
}

export function StreamNotice({ contact, segments, onRetry }: StreamNoticeProps) {
  if (contact.kind === "waiting") {
    return (
      <Notice kind="warning" title="There is no connection now">
        <p>{capitalize(contact.reason)}. The page reconnects by itself, continues after the last event, and reports if events are missing.</p>
        <Button onClick={onRetry}>Connect now</Button>
      </Notice>
    );
  }
  if (contact.kind === "gone") return <Notice kind="warning" title="The stream has ended"><p>{capitalize(contact.reason)}.</p><Button onClick={onRetry}>Try again</Button></Notice>;
  if (contact.kind !== "refused") return null;
  return <Refused error={contact.error} segments={segments} onRetry={onRetry} />;
}

function Refused({ error, segments, onRetry }: { error: ApiError; segments: Segments; onRetry: () => void }) {
  const { login, hasExpired } = useStore(sessionState);
  const path = dataPath(segments);
  if (hasExpired) return <Notice kind="warning" title="Your login has ended"><p>Log in again: the stream continues after the last event.</p></Notice>;
  const tell = (title: string, words: ComponentChildren) => (
    <Notice kind="warning" title={title}>
      <p>{words}</p>
      <Button onClick={onRetry}>Try again</Button>
    </Notice>
  );
  switch (error.status) {
    case 400:
      return tell("The stream cannot be opened with these values", <>{capitalize(error.message)}. {error.hint !== undefined && `Hint: ${error.hint}.`}</>);
    case 401:
      return tell("This stream needs a login", "Log in at the top right.");
    case 403:
      return tell("You may not read this stream", <>{login === null ? "Log in at the top right. " : ""}Ask an administrator of the server for a permission for <code>GET</code> of <code>{path}</code>.</>);
    case 404:
      return tell("There is no such stream", <>Nothing is declared at <code>{path}</code>. The <a href={addressOf(collectionOf(segments))}>streams of the collection</a> may have another name, or none is declared yet.</>);
    case 405:
      return tell("Streams are off", <>This server has no streams: <code>events.enabled</code> is <code>false</code>.</>);
    case 429:
    case 503:
      return tell("There are too many streams", error.message);
    case 501:
      return tell("The database has no change streams", <>It is a standalone server. Make it a replica set; one member is enough. The embedded database of docgraph is a replica set.</>);
  }
  return (
    <Notice kind="error" title="The stream cannot be opened">
      <p>{error.message}</p>
      {error.hint !== undefined && <p class="soft">{error.hint}</p>}
      <Button onClick={onRetry}>Try again</Button>
    </Notice>
  );
}

function capitalize(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1).replace(/\.$/, "");
}
