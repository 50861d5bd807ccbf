/** Shown to callers who may not see users and rules. */

import { asApiError } from "../../api/error.js";
import { sessionState } from "../../api/session.js";
import { settings } from "../../api/settings.js";
import { useStore } from "../../api/store.js";
import { Button, Empty, ErrorNotice } from "../../parts/basic.js";

export function NotOpen({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { login } = useStore(sessionState);
  const { status } = asApiError(error);
  if (status === 401) return <Empty title="Users and rules are for administrators"><p>Log in as one at the top right.</p></Empty>;
  if (status !== 403) {
    return (
      <>
        <ErrorNotice error={error} title="The server did not answer" />
        <div><Button onClick={onRetry}>Try again</Button></div>
      </>
    );
  }
  const tools = settings.paths["tools"] ?? "";
  return (
    <Empty title="Users and rules are for administrators">
      <p>{login === null ? "You are not logged in." : login.roles.length === 0 ? "You have no roles." : `You have the roles ${login.roles.join(", ")}.`} The other pages show what you may do.</p>
      <p class="soft">An administrator can open the users to a role with two rules, <code>path('{tools}/realm') and method(GET)</code> and one for the path of the users. Only the root role can list the rules.</p>
    </Empty>
  );
}
