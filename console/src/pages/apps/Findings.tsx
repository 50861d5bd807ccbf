/** All findings about a definition, as `docgraph apps check` reports them; a click goes to the position. */

import { useState } from "preact/hooks";
import { asApiError } from "../../api/error.js";
import type { Finding } from "../../api/tools.js";
import { Button, Notice } from "../../parts/basic.js";
import type { Check } from "./useCheck.js";
import { type Part, parts } from "./work.js";

const portion = 50;

/** The part that a finding is about. */
export function partOf({ where, part: told }: Finding): Part | null {
  return told ?? parts.find((part) => part === firstWord(where)) ?? null;
}

export function Findings({ check: { checked, error, isRunning, retry }, onJump }: { check: Check; onJump: (finding: Finding) => void }) {
  const [most, setMost] = useState(portion);
  const all = [
    ...(checked?.errors ?? []).map((finding) => ({ finding, severity: "error" as const })),
    ...(checked?.warnings ?? []).map((finding) => ({ finding, severity: "warning" as const })),
  ];
  if (error === null && all.length === 0) return null;
  return (
    <section class="findings" aria-label="Findings" aria-busy={isRunning}>
      {error !== null && <NotChecked error={error} onRetry={retry} />}
      <ul>
        {all.slice(0, most).map(({ finding, severity }, index) => (
          <li key={index}>
            <button type="button" class="finding" disabled={finding.line === undefined} onClick={() => onJump(finding)}>
              <span class={`finding-kind finding-${severity}`}>{severity}</span>
              <span class="finding-place">{describePlace(finding)}</span>
              <span class="finding-what">
                {finding.what}
                {finding.hint && <span class="soft"> — {finding.hint}</span>}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {all.length > most && <Button kind="quiet" onClick={() => setMost(most + portion * 4)}>{all.length - most} more</Button>}
    </section>
  );
}

/** The field, and where it is written: "Post.extra, schema line 4". */
export function describePlace(finding: Finding): string {
  const { where, line, field } = finding;
  if (line === undefined) return field ?? where;
  const place = `${partOf(finding) ?? firstWord(where)} line ${line}`;
  return field === undefined ? place : `${field}, ${place}`;
}

function firstWord(where: string): string {
  return /^\w*/.exec(where)?.[0] ?? "";
}

function NotChecked({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { status, message } = asApiError(error);
  const why =
    status === 401 ? "Your login has ended. Log in to continue."
    : status === 403 ? "You may not use the tools of this server. Nothing is checked while you type, and mappings must be JSON."
    : message || `The server answered ${status}.`;
  return <Notice kind="warning" title="Not checked">{why} <Button kind="quiet" onClick={onRetry}>Check again</Button></Notice>;
}
