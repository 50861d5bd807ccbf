/** The page Ask: choose an app, and ask it. */

import { useEffect, useState } from "preact/hooks";
import { type VisibleApp, listApps } from "../../api/graphql.js";
import { useOwner } from "../../api/owner.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { Button, Empty, ErrorNotice, Loading } from "../../parts/basic.js";
import type { PageProps } from "../../shell/pageProps.js";
import { address, go } from "../../shell/router.js";
import { Desk } from "./Desk.js";

type Apps = { kind: "loading" } | { kind: "ready"; apps: readonly VisibleApp[] } | { kind: "failed"; error: unknown };

export default function AskPage({ rest, hash }: PageProps) {
  const { login } = useStore(sessionState);
  const owner = useOwner();
  const [state, setState] = useState<Apps>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    listApps(controller.signal).then(
      (apps) => setState({ kind: "ready", apps }),
      (error: unknown) => !controller.signal.aborted && setState({ kind: "failed", error }),
    );
    return () => controller.abort();
  }, [login?.name, attempt]);
  const apps = state.kind === "ready" ? state.apps : [];
  const app = rest.length > 0 ? rest.join("/") : apps[0]?.app;

  if (app === undefined) {
    if (state.kind === "loading") return <Loading what="Loading the apps" />;
    if (state.kind === "failed") return <div class="page"><ErrorNotice error={state.error} title="The apps could not be listed" /><Button onClick={() => setAttempt(attempt + 1)}>Try again</Button></div>;
    return <NoApps isLoggedIn={login !== null} />;
  }
  return (
    <div class="ask">
      <h1 class="offscreen">Ask {app}</h1>
      <Desk key={app} app={app} apps={apps} owner={owner} hash={hash} onApp={(uri) => go(address("ask", ...uri.split("/")))} />
    </div>
  );
}

function NoApps({ isLoggedIn }: { isLoggedIn: boolean }) {
  return (
    <div class="page">
      <h1 class="offscreen">Ask</h1>
      <Empty title="There is no app that you may use">
        {isLoggedIn ? (
          <p>Make one on the page <a href={address("apps")}>Apps</a>, or ask an administrator of the server for a permission.</p>
        ) : (
          <p>Log in at the top right to see yours.</p>
        )}
      </Empty>
    </div>
  );
}
