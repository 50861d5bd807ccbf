/** Why there is no schema, and what to do about it. */

import { Button, ErrorNotice, Notice } from "../../parts/basic.js";
import type { SchemaState } from "./introspection.js";

export function SchemaNotice({ state, isLoggedIn, isForAnother = false, onAgain }: { state: SchemaState; isLoggedIn: boolean; isForAnother?: boolean; onAgain: () => void }) {
  if (state.kind === "failed") {
    return (
      <div class="ask-notice">
        <ErrorNotice error={state.error} title="The schema could not be loaded" />
        <Button onClick={onAgain}>Try again</Button>
      </div>
    );
  }
  if (state.kind !== "refused") return null;
  const { title, text } = isForAnother && state.status === 403 ? forAnother : describe(state.status, isLoggedIn);
  return (
    <div class="ask-notice">
      <Notice kind="warning" title={title}>
        <p>{text}</p>
        {state.reason && <p class="soft">{state.reason}</p>}
      </Notice>
    </div>
  );
}

const forAnother = { title: "This app is not for them", text: "A rule for its address would let them in: see the page Access." };

function describe(status: number, isLoggedIn: boolean): { title: string; text: string } {
  if (status === 401) return { title: "This app asks for a login", text: "Log in at the top right. What you have written is kept." };
  if (status === 403) return { title: "This app is not for you", text: "Whoever runs the server can let you in with a permission for its address." };
  if (status === 404) return { title: "There is no such app", text: "It may have been renamed, disabled or deleted. The apps that you may ask are in the list above." };
  const who = isLoggedIn ? "with your roles" : "without a login";
  return {
    title: "The schema is not shown here",
    text: `The app can be asked, but not what it can be asked for, ${who}: the option graphql.introspection says to whom it is shown. Queries run all the same, without completion and documentation.`,
  };
}
