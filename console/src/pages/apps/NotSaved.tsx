/** Why nothing was saved; the work stays in the editors. */

import { asApiError } from "../../api/error.js";
import { Notice } from "../../parts/basic.js";

export function NotSaved({ error }: { error: unknown }) {
  const { status, message, hint } = asApiError(error);
  return (
    <Notice kind="error" title="Not saved">
      <p>{explain(status, message)}</p>
      {hint !== undefined && <p class="soft">{hint}</p>}
      <p class="soft">Nothing is lost: this browser keeps your work.</p>
    </Notice>
  );
}

function explain(status: number, message: string): string {
  if (status === 401) return "Your login has ended. Log in, then save again.";
  if (status === 403) return `You may not store this definition. ${message}`;
  return message || `The server answered ${status}.`;
}
