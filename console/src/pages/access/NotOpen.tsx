/** What callers read for whom users and rules are not. */

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
        <ErrorNotice error={error} title="The server could not be asked" />
        <div><Button onClick={onRetry}>Try again</Button></div>
      </>
    );
  }
  const tools = settings.paths["tools"] ?? "";
  return (
    <Empty title="Users and rules are for administrators">
      <p>{login === null ? "Nobody is logged in." : login.roles.length === 0 ? "You have no roles." : `You have the roles ${login.roles.join(", ")}.`} What they let you do is on the other pages.</p>
      <p class="soft">An administrator can open the users to a role with two rules, <code>path('{tools}/realm') and method(GET)</code> and one for the path of the users. The list of rules stays with the root role.</p>
    </Empty>
  );
}
