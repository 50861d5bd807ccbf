/** The query as a program that sends it, to copy. */

import { useState } from "preact/hooks";
import { Button, CopyButton, Dialog } from "../../parts/basic.js";
import { Tabs } from "../../parts/Tabs.js";
import { type Sent, type SnippetKind, snippetKinds, writeSnippet } from "./snippets.js";

export function CopyAs({ sent }: { sent: () => Sent }) {
  const [opened, setOpened] = useState<Sent | null>(null);
  const [kind, setKind] = useState<SnippetKind>("curl");
  return (
    <>
      <Button kind="quiet" aria-haspopup="dialog" onClick={() => setOpened(sent())}>Copy as …</Button>
      {opened !== null && (
        <Dialog title="Copy as a program" wide onClose={() => setOpened(null)}>
          <Tabs label="Program" tabs={snippetKinds} selected={kind} onSelect={setKind}>
            <pre class="ask-snippet" tabIndex={0} aria-label="Program">{writeSnippet(kind, opened)}</pre>
          </Tabs>
          {opened.user !== null && <p class="soft">It has your name, and asks for the password. For a program that runs by itself, use an API key.</p>}
          <div class="dialog-actions">
            <CopyButton text={() => writeSnippet(kind, opened)} label="Copy the program" />
            <Button onClick={() => setOpened(null)}>Close</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
