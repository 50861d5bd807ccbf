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
        <p>{capitalize(contact.reason)}. The page connects again by itself, goes on after the last event, and says if something is missing.</p>
        <Button onClick={onRetry}>Connect now</Button>
      </Notice>
    );
  }
  if (contact.kind === "gone") return <Notice kind="warning" title="The stream is over"><p>{capitalize(contact.reason)}.</p><Button onClick={onRetry}>Try again</Button></Notice>;
  if (contact.kind !== "refused") return null;
  return <Refused error={contact.error} segments={segments} onRetry={onRetry} />;
}

function Refused({ error, segments, onRetry }: { error: ApiError; segments: Segments; onRetry: () => void }) {
  const { login, hasExpired } = useStore(sessionState);
  const path = dataPath(segments);
  if (hasExpired) return <Notice kind="warning" title="Your login has ended"><p>Log in again: the stream goes on after the last event.</p></Notice>;
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
      return tell("Only callers who are logged in may follow this stream", "Log in at the top right.");
    case 403:
      return tell("This stream is not open to you", <>{login === null ? "Log in at the top right. " : ""}It needs a permission for <code>GET</code> of <code>{path}</code>: ask whoever runs the server.</>);
    case 404:
      return tell("There is no such stream", <>Nothing is declared at <code>{path}</code>. The <a href={addressOf(collectionOf(segments))}>streams of the collection</a> may have another name, or none is declared yet.</>);
    case 405:
      return tell("Streams are off", <>The server serves none: <code>events.enabled</code> is <code>false</code>.</>);
    case 429:
    case 503:
      return tell("There are too many streams", error.message);
    case 501:
      return tell("The database tells no changes", <>It is a standalone server. Make it a replica set, of one member if you like; the embedded database of docgraph is one.</>);
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
