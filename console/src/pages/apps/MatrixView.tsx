/** Which roles see which fields of the definition, and which of them may use the app. */

import { useEffect, useState } from "preact/hooks";
import { type Access, type Checked, type Matrix, crossDraft } from "../../api/tools.js";
import { Button, Empty, ErrorNotice, Loading } from "../../parts/basic.js";

type Found = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly matrix: Matrix };

const portion = 200;

export function MatrixView({ definition, checked }: { definition: string; checked: Checked | null }) {
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const isGood = checked !== null && checked.errors.length === 0;
  useEffect(() => {
    if (!isGood) return undefined;
    const controller = new AbortController();
    crossDraft(definition, null, controller.signal).then(
      (matrix) => setFound({ kind: "ready", matrix }),
      (error: unknown) => !controller.signal.aborted && setFound({ kind: "failed", error }),
    );
    return () => controller.abort();
  }, [definition, isGood]);
  if (checked !== null && !isGood) return <Empty title="No matrix yet"><p>The definition is not valid yet; its findings show why.</p></Empty>;
  if (found.kind === "loading") return <Loading what="Loading which roles see which fields" />;
  if (found.kind === "failed") return <div class="page"><ErrorNotice error={found.error} title="The matrix could not be loaded" /></div>;
  return <Grid matrix={found.matrix} />;
}

function Grid({ matrix: { roles, fields, access = [] } }: { matrix: Matrix }) {
  const [filter, setFilter] = useState("");
  const [isHidden, setHidden] = useState(false);
  const [most, setMost] = useState(portion);
  const wanted = filter.trim().toLowerCase();
  const fitting = fields.filter(
    ({ field, seenBy }) => field.toLowerCase().includes(wanted) && (!isHidden || roles.some((role) => !seenBy[role])),
  );
  return (
    <div class="matrix">
      <div class="matrix-bar">
        <input class="input" type="search" aria-label="Filter fields" placeholder="Filter fields" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        <label><input type="checkbox" checked={isHidden} onChange={(event) => setHidden(event.currentTarget.checked)} /> only fields that are hidden from a role</label>
      </div>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Fields and roles">
        <table class="table">
          <thead>
            <tr><th scope="col">Field</th>{roles.map((role) => <th key={role} scope="col" class="matrix-cell">{role}</th>)}</tr>
          </thead>
          <tbody>
            {access.length > 0 && (
              <tr>
                <th scope="row">may use the app</th>
                {roles.map((role) => <td key={role} class="matrix-cell"><MayAsk access={access.find((one) => one.role === role)} /></td>)}
              </tr>
            )}
            {fitting.slice(0, most).map(({ field, seenBy }) => (
              <tr key={field}>
                <th scope="row"><code>{field}</code></th>
                {roles.map((role) => <td key={role} class="matrix-cell"><Seen isSeen={seenBy[role] ?? false} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fitting.length === 0 && <p class="soft">No field matches.</p>}
      {fitting.length > most && <Button kind="quiet" onClick={() => setMost(most + portion * 5)}>{fitting.length - most} more fields</Button>}
    </div>
  );
}

function Seen({ isSeen }: { isSeen: boolean }) {
  return <span class={isSeen ? "matrix-yes" : "matrix-no"}><span aria-hidden="true">{isSeen ? "✓" : "–"}</span><span class="offscreen">{isSeen ? "sees it" : "does not see it"}</span></span>;
}

function MayAsk({ access }: { access: Access | undefined }) {
  if (access === undefined) return <span class="soft">?</span>;
  return (
    <span title={access.reason} class={access.allowed ? "matrix-yes" : "matrix-no"}>
      {access.allowed ? "yes" : "no"}
      {access.readFilters !== undefined && <span class="soft" title={JSON.stringify(access.readFilters)}> some rows</span>}
    </span>
  );
}
