/** Follows one stream: opens it, and when it breaks opens it again after the last event. */

import { ApiError, asApiError, readError } from "../../api/error.js";
import { requireRight } from "../../api/rights.js";
import { send } from "../../api/session.js";
import { type ServerEvent, readEvents } from "../../api/sse.js";
import { type Happening, readChange } from "./happenings.js";

export type Contact =
  | { readonly kind: "opening" }
  | { readonly kind: "open"; readonly since: Date }
  | { readonly kind: "waiting"; readonly reason: string; readonly seconds: number }
  /** It does not come back by itself. */
  | { readonly kind: "refused"; readonly error: ApiError }
  | { readonly kind: "gone"; readonly reason: string };

const media = "text/event-stream";
const longestSilence = 90_000; // ms; the server sends a comment every 20 s
const firstPause = 500;
const longestPause = 10_000;
const passing = [0, 408, 429, 500, 502, 503, 504];
const lost = "resume-point-lost";
const gone = 4001;
const historyLost = 4002;
const noIds = "The server does not send you the ids of events.";
const otherRights = /^the rights have changed/;

interface Listener {
  onContact(contact: Contact): void;
  onHappening(one: Happening): void;
}

export class Follower {
  private last = "";
  private serial = 0;
  private wasOpen = false;
  private pause = firstPause;
  private broken: { readonly at: Date; readonly reason: string } | null = null;
  private whyUnknown = noIds;
  private controller: AbortController | null = null;
  private hurry: (() => void) | null = null;

  constructor(
    private readonly address: string,
    private readonly listener: Listener,
  ) {}

  /** Start, or continue after `stop`: no event in between is missed, if the server still has them. */
  start(): void {
    if (this.controller !== null) return;
    this.controller = new AbortController();
    this.listener.onContact({ kind: "opening" });
    void this.follow(this.controller.signal);
  }

  stop(): void {
    this.controller?.abort();
    this.controller = null;
    this.hurry?.();
  }

  /** Do not wait any longer. */
  connectNow(): void {
    this.hurry?.();
  }

  private async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let reason: string | null;
      try {
        reason = await this.followOnce(signal);
      } catch (thrown) {
        if (signal.aborted) return;
        const error = asApiError(thrown);
        if (!this.wasOpen || !passing.includes(error.status)) {
          this.end({ kind: "refused", error });
          return;
        }
        reason = error.message;
      }
      if (signal.aborted || reason === null) return;
      this.noteBreak(reason);
      this.listener.onContact({ kind: "waiting", reason, seconds: this.pause / 1000 });
      await this.wait();
      this.pause = Math.min(this.pause * 2, longestPause);
    }
  }

  /** The events of one connection; why it has ended, or null: do not reconnect. */
  private async followOnce(signal: AbortSignal): Promise<string | null> {
    await requireRight("GET", this.address.replace(/\?.*/s, ""));
    const response = await send(this.address, { headers: { Accept: media, ...(this.last === "" ? {} : { "Last-Event-ID": this.last }) }, signal });
    if (!response.ok || response.body === null || !(response.headers.get("Content-Type") ?? "").startsWith(media)) return this.explain(response);
    this.tellBreak();
    this.wasOpen = true;
    this.listener.onContact({ kind: "open", since: new Date() });
    const watch = new Silence(response.body);
    try {
      for await (const event of readEvents(watch.body, watch.hear)) {
        if (event.name === "close") return this.readEnd(event.data);
        this.take(event);
      }
      return "the server has closed the connection";
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      return thrown instanceof SyntaxError ? this.giveUp(thrown) : "the connection was lost";
    } finally {
      watch.end();
    }
  }

  private take({ id, data }: ServerEvent): void {
    this.pause = firstPause;
    if (data !== "") this.listener.onHappening(readChange((this.serial += 1), data));
    if (id !== "") this.last = id;
  }

  private async explain(response: Response): Promise<string> {
    if (response.ok) throw new ApiError(404, "no-stream", "There is no change stream at this address.");
    const error = await readError(response);
    if (this.wasOpen && error.code === lost) {
      this.forget("The database no longer has the last event.");
      return "it restarts";
    }
    throw error;
  }

  /** The reason in the last event of a stream. */
  private readEnd(data: string): string | null {
    const { code, reason } = JSON.parse(data) as { code: number; reason: string };
    if (code === gone) {
      this.end({ kind: "gone", reason });
      return null;
    }
    if (code === historyLost) this.forget("The database has lost events.");
    if (otherRights.test(reason)) this.forget("Your permissions have changed, and other documents may be visible now.");
    return reason;
  }

  /** Restart: the events in between are unknown. */
  private forget(why: string): void {
    this.last = "";
    this.whyUnknown = why;
  }

  private giveUp(error: Error): null {
    this.end({ kind: "refused", error: new ApiError(0, "unreadable-event", error.message) });
    return null;
  }

  /** Report what happened between the lost connection and this one. */
  private tellBreak(): void {
    if (!this.wasOpen || this.broken === null) return;
    const seconds = Math.max(1, Math.round((Date.now() - this.broken.at.getTime()) / 1000));
    const away = `Disconnected for ${seconds} s (${this.broken.reason}).`;
    const isComplete = this.last !== "";
    const text = isComplete
      ? `${away} The stream continued after the last event: nothing is missing.`
      : `${away} ${this.whyUnknown} The events in between are missing here: read the collection again.`;
    this.listener.onHappening({ kind: "break", serial: (this.serial += 1), at: new Date(), isComplete, text });
    this.broken = null;
    this.whyUnknown = noIds;
  }

  /** The first reason counts: later ones only repeat it. */
  private noteBreak(reason: string): void {
    this.broken ??= { at: new Date(), reason };
  }

  private end(contact: Contact): void {
    this.noteBreak(contact.kind === "refused" ? contact.error.message : "it had ended");
    this.controller = null;
    this.listener.onContact(contact);
  }

  private wait(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.pause);
      this.hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Ends a silent connection: an unplugged cable sends no signal. */
class Silence {
  readonly body: ReadableStream<Uint8Array>;
  private readonly cut = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(body: ReadableStream<Uint8Array>) {
    this.body = body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal: this.cut.signal });
    this.hear();
    addEventListener("offline", this.end);
  }

  readonly hear = (): void => {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.end, longestSilence);
  };

  readonly end = (): void => {
    clearTimeout(this.timer);
    removeEventListener("offline", this.end);
    this.cut.abort();
  };
}
