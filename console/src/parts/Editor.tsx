/** An editor for GraphQL, JSON, YAML and plain text; CodeMirror is loaded when the first one is shown. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { describeTab } from "./editor/tabKey.js";
import type { EditorControl, EditorOptions } from "./editor/types.js";
import type { CodeEditor } from "./editor/view.js";
import { ErrorNotice, Loading } from "./basic.js";

export type { Completions, EditorControl, EditorOptions, Finding, Key, Language } from "./editor/types.js";

interface EditorProps extends EditorOptions {
  /** Receives what the page can make the editor do. */
  readonly control?: { current: EditorControl | null };
}

/** `language` and `isReadOnly` hold for the life of an editor: give it another `key` to change them. */
export function Editor({ control, ...options }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<CodeEditor | null>(null);
  const [indents, setIndents] = useState(false);
  const current = useRef({ options, onToggleTab: () => setIndents((now) => !now) }).current;
  const [state, setState] = useState<"loading" | "ready" | { failed: unknown }>("loading");
  current.options = options;

  useEffect(() => {
    let isGone = false;
    import("./editor/view.js").then(
      ({ CodeEditor: Made }) => {
        if (isGone || host.current === null) return;
        editor.current = new Made(host.current, current);
        if (control) control.current = editor.current;
        setState("ready");
      },
      (failed: unknown) => setState({ failed }),
    );
    return () => {
      isGone = true;
      if (control && control.current === editor.current) control.current = null; // the next editor may have it already
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  // Immediately: no user can begin to write between a decision of the page and the change of the text.
  useLayoutEffect(() => editor.current?.update());
  useLayoutEffect(() => editor.current?.setTabIndents(indents), [indents]);

  return (
    <div class="editor">
      {state === "loading" && <Loading what="Loading the editor" />}
      {typeof state === "object" && <ErrorNotice error={state.failed} title="The editor cannot be loaded" />}
      <div class="editor-host" ref={host} />
      <p class="editor-tab" aria-live="polite">{describeTab(indents)}</p>
    </div>
  );
}
