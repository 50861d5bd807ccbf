/** The small parts that every page is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { asApiError } from "../api/error.js";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "kind"> & { kind?: "primary" | "plain" | "quiet" | "danger" };

/** A button; `primary` is the one thing to do, `quiet` has no frame, `danger` takes something away. */
export function Button({ kind = "plain", class: extra = "", ...rest }: ButtonProps) {
  return <button type="button" {...rest} class={`button button-${kind} ${extra as string}`} />;
}

/** A message in the flow of the page; screen readers read errors immediately, the others later. */
export function Notice(props: { kind?: "info" | "good" | "warning" | "error"; title?: string; children?: ComponentChildren }) {
  const { kind = "info", title, children } = props;
  return (
    <div class={`notice notice-${kind}`} role={kind === "error" ? "alert" : "status"}>
      {title !== undefined && <strong class="notice-title">{title}</strong>}
      <div>{children}</div>
    </div>
  );
}

/** What was thrown, as a notice. */
export function ErrorNotice({ error, title }: { error: unknown; title?: string }) {
  const { message, hint, code, status } = asApiError(error);
  return (
    <Notice kind="error" {...(title === undefined ? {} : { title })}>
      <p>{message || describeStatus(status)}</p>
      {hint !== undefined && <p class="soft">{hint}</p>}
      {status > 0 && <p class="soft">{status} <code>{code}</code></p>}
    </Notice>
  );
}

function describeStatus(status: number): string {
  if (status === 401) return "Log in to do this.";
  if (status === 403) return "You do not have the permission to do this.";
  return `The server answered ${status}.`;
}

/** An empty place: what would be here, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Something is on its way; shown only when it takes a while (by the style). */
export function Loading({ what = "Loading" }: { what?: string }) {
  return <p class="loading" role="status">{what} …</p>;
}

/** Asks before unsaved changes are lost. */
export function DiscardButton({ onDiscard, label = "Discard changes", kind = "plain" }: { onDiscard: () => void; label?: string; kind?: "plain" | "quiet" }) {
  const [isAsking, setAsking] = useState(false);
  const discard = () => {
    setAsking(false);
    onDiscard();
  };
  return (
    <>
      <Button kind={kind} onClick={() => setAsking(true)}>{label}</Button>
      {isAsking && (
        <Dialog title="Discard your changes?" onClose={() => setAsking(false)}>
          <p>They are not saved: nothing brings them back.</p>
          <div class="dialog-actions">
            <Button onClick={() => setAsking(false)}>Keep them</Button>
            <Button kind="danger" onClick={discard}>Discard them</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Copies a text, and reports it. */
export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (said === "") return undefined;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    const wanted = typeof text === "string" ? text : text();
    setSaid((await copyText(wanted)) ? "Copied" : "Cannot copy");
  };
  return (
    <Button kind="quiet" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </Button>
  );
}

/** The clipboard of a page that is not served by https can only be written by way of a selection. */
async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy"); // eslint-disable-line @typescript-eslint/no-deprecated -- over plain http there is nothing else
  area.remove();
  return done;
}

/** Saves a text as a file of the browser. */
export function download(name: string, text: string, type = "application/json"): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

interface FieldProps {
  label: string;
  hint?: string;
  value: string;
  onInput: (value: string) => void;
  name?: string;
  type?: "text" | "password";
  autocomplete?: string;
  required?: boolean;
  placeholder?: string;
}

/** An input with its label. */
export function Field({ label, hint, onInput, type = "text", ...rest }: FieldProps) {
  const id = useId();
  const common = {
    id,
    "aria-describedby": hint === undefined ? undefined : `${id}-hint`,
    onInput: (event: { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value),
    ...rest,
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {type === "password" ? <input type="password" {...common} /> : <input type="text" {...common} />}
      {hint !== undefined && <p id={`${id}-hint`} class="soft">{hint}</p>}
    </div>
  );
}

/** A window above the page; Escape closes it, and the focus goes back to where it was. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const { title, onClose, children, wide = false } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const opened = dialog.current;
    const before = document.activeElement;
    opened?.showModal();
    return () => {
      opened?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={dialog} class={wide ? "dialog dialog-wide" : "dialog"} aria-labelledby={id} onCancel={cancel}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
