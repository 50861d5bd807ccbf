/** Server-sent events, read from an answer piece by piece. */

export interface ServerEvent {
  /** The id of the event; empty: it has none. */
  readonly id: string;
  /** Its name; empty for an id that comes without an event. */
  readonly name: string;
  readonly data: string;
}

/** The events of a response until it ends; `onSign` is called for everything received, comments included. */
export async function* readEvents(body: ReadableStream<Uint8Array>, onSign: () => void): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const fields = new Collector();
  let pieces: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onSign();
      const text = decoder.decode(value, { stream: true });
      if (!text.includes("\n")) {
        pieces.push(text); // a long event is put together once
        continue;
      }
      const lines = [...pieces, text].join("").split("\n");
      pieces = [lines.pop() ?? ""];
      for (const line of lines) {
        const event = fields.take(line);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined); // it may have broken already
  }
}

class Collector {
  private id = "";
  private name = "";
  private data: string[] = [];

  /** The event that this line ends, if it ends one. */
  take(line: string): ServerEvent | null {
    if (line === "" || line === "\r") return this.finish();
    const [, field, value] = /^([^:]*):? ?([^]*?)\r?$/.exec(line)!;
    if (field === "id") this.id = value!;
    else if (field === "event") this.name = value!;
    else if (field === "data") this.data.push(value!);
    return null;
  }

  private finish(): ServerEvent | null {
    const event = { id: this.id, name: this.name, data: this.data.join("\n") };
    const isEmpty = event.id === "" && this.data.length === 0;
    this.id = this.name = "";
    this.data = [];
    return isEmpty ? null : event;
  }
}
