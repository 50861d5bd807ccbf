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

const forAnother = { title: "This caller may not use this app", text: "Add a rule for its address on the page Access to allow it." };

function describe(status: number, isLoggedIn: boolean): { title: string; text: string } {
  if (status === 401) return { title: "This app needs a login", text: "Log in at the top right. Your query stays here." };
  if (status === 403) return { title: "You may not use this app", text: "Ask an administrator of the server for a permission for its address." };
  if (status === 404) return { title: "There is no such app", text: "It may have been renamed, disabled or deleted. The list above has the apps that you may use." };
  const who = isLoggedIn ? "with your roles" : "without a login";
  return {
    title: "The schema is not shown here",
    text: `The app does not show its schema ${who}: the option graphql.introspection decides. Queries still run, without completion and documentation.`,
  };
}
