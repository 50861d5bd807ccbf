/** The head of the page: the app, its state, and the actions. */

import { appPath } from "../../api/graphql.js";
import { Button, DiscardButton } from "../../parts/basic.js";
import { address } from "../../shell/router.js";
import { StateChip, type State, describeFindings } from "./States.js";
import type { Check } from "./useCheck.js";
import type { Version } from "./work.js";

interface BenchHeadProps {
  name: string;
  version: Version;
  stored: Version | null;
  check: Check;
  isChanged: boolean;
  isSaving: boolean;
  canSave: boolean;
  /** Where collections can be read again; null where the caller may not. */
  collections: string | null;
  mayWrite: boolean;
  mayDelete: boolean;
  onSave: () => void;
  onDiscard: () => void;
  onDelete: () => void;
}

export function BenchHead({ name, version, stored, check, isChanged, isSaving, canSave, collections, mayWrite, mayDelete, onSave, onDiscard, onDelete }: BenchHeadProps) {
  const uri = readUri(stored?.texts.descriptor ?? version.texts.descriptor) ?? name;
  return (
    <div class="bench-head">
      <div class="bench-title">
        <h1><a href={address("apps")}>Apps</a><span class="soft" aria-hidden="true"> / </span>{name}</h1>
        <StateChip state={stateOf(stored, check, isChanged)} />
        {isChanged && stored !== null && <StateChip state="unsaved" />}
        <CheckState check={check} />
      </div>
      <div class="bench-actions">
        {collections !== null && <a class="button button-quiet" href={collections} title="See what your collections would add">From my collections</a>}
        {stored !== null && <a class="button button-quiet" href={address("ask", ...uri.split("/"))} title={appPath(uri)}>Ask</a>}
        {isChanged && <DiscardButton kind="quiet" label={stored === null ? "Discard" : "Discard changes"} onDiscard={onDiscard} />}
        {stored !== null && mayDelete && <Button kind="danger" onClick={onDelete}>Delete</Button>}
        {mayWrite && <Button kind="primary" disabled={!canSave || isSaving} onClick={onSave} title="Ctrl-S">{isSaving ? "Saving …" : "Save"}</Button>}
      </div>
    </div>
  );
}

/** The address, if the text has a plain one; only the server parses YAML. */
function readUri(descriptor: string): string | null {
  const found = /^(?:\s*"?uri"?\s*:|\{.*?\buri"?\s*:)\s*"?([^"\s,}#]+)/m.exec(descriptor);
  return found?.[1]?.replace(/^\/+|\/+$/g, "") ?? null;
}

function stateOf(stored: Version | null, { checked }: Check, isChanged: boolean): State {
  if (stored === null) return "new";
  if (!isChanged && checked !== null && checked.errors.length > 0) return "invalid";
  return /^\s*"?enabled"?\s*:\s*false\b/m.test(stored.texts.descriptor) ? "disabled" : "served";
}

function CheckState({ check: { checked, isRunning, error } }: { check: Check }) {
  const text = error !== null && !isRunning ? "not checked" : checked === null ? "checking …" : describeFindings(checked.errors.length, checked.warnings.length);
  const kind = error !== null ? "soft" : checked === null ? "soft" : checked.errors.length > 0 ? "apps-bad" : checked.warnings.length > 0 ? "apps-warned" : "apps-good";
  return <span class={`bench-check ${kind}`} role="status" aria-label="Check">{text}</span>;
}
