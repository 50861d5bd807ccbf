/** Loads a page and shows it; a page that fails shows its error, and the rest continues. */

import { Component, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { send } from "../api/session.js";
import { settings } from "../api/settings.js";
import { Button, ErrorNotice, Loading } from "../parts/basic.js";
import type { PageProps } from "./pageProps.js";
import type { PageEntry } from "./pages.js";

type Loaded = { page: PageEntry; Shown: ComponentType<PageProps> } | { page: PageEntry; failed: unknown };

export function PageFrame({ page, rest, hash }: PageProps & { page: PageEntry }) {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  useEffect(() => {
    let isGone = false;
    page.load().then(
      (module) => !isGone && setLoaded({ page, Shown: module.default }),
      (failed: unknown) => !isGone && setLoaded({ page, failed }),
    );
    return () => {
      isGone = true;
    };
  }, [page]);
  if (loaded === null || loaded.page !== page) return <Loading />;
  if ("failed" in loaded) return <Failed error={loaded.failed} />;
  return (
    <Guard key={page.name}>
      <loaded.Shown rest={rest} hash={hash} />
    </Guard>
  );
}

/** After an update of the server the files of an old page no longer exist: loading the page again helps. */
function Failed({ error }: { error: unknown }) {
  const [failed, setFailed] = useState(error);
  // A reload without a server would leave the page of the browser in the place of this one.
  const reload = () => void send(settings.base, { method: "HEAD" }).then(() => location.reload(), setFailed);
  return (
    <div class="page">
      <ErrorNotice error={failed} title="This page cannot be shown" />
      <Button onClick={reload}>Load again</Button>
    </div>
  );
}

class Guard extends Component<object, { failed?: unknown }> {
  static override getDerivedStateFromError(failed: unknown) {
    return { failed };
  }

  override render() {
    return "failed" in this.state ? <Failed error={this.state.failed} /> : this.props.children;
  }
}
