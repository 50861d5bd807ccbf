/** The frame around every page: the rail, who is logged in, and the work. */

import { useEffect, useState } from "preact/hooks";
import { sessionState } from "../api/session.js";
import { settings } from "../api/settings.js";
import { useStore } from "../api/store.js";
import { Empty, Loading } from "../parts/basic.js";
import { Account } from "./Account.js";
import { LoginDialog } from "./Login.js";
import { PageFrame } from "./PageFrame.js";
import { pages } from "./pages.js";
import { address, followLink, place } from "./router.js";
import { signs } from "./signs.js";

const shown = pages.filter((page) => page.needs in settings.paths);

export function Shell() {
  const { page: name, rest, hash } = useStore(place);
  const { isReady, hasExpired } = useStore(sessionState);
  const [wantsLogin, setWantsLogin] = useState(false);
  const page = name === "" ? shown[0] : shown.find((one) => one.name === name);
  useEffect(() => {
    document.title = page ? `${page.title} · ${settings.title}` : settings.title;
  }, [page]);
  return (
    <div class="shell" onClick={followLink}>
      <a class="skip" href="#main">Skip to the work</a>
      <Rail selected={page?.name} />
      <header class="top">
        <span class="top-title">{settings.title}</span>
        <Account onLogIn={() => setWantsLogin(true)} />
      </header>
      <main class="main" id="main" tabIndex={-1}>
        {!isReady ? <Loading /> : page ? <PageFrame page={page} rest={rest} hash={hash} /> : <Nowhere name={name} />}
      </main>
      {(wantsLogin || hasExpired) && <LoginDialog onClose={() => setWantsLogin(false)} />}
    </div>
  );
}

function Rail({ selected }: { selected: string | undefined }) {
  return (
    <nav class="rail" aria-label="Pages">
      <a class="rail-home" href={address("")} aria-label="docgraph console">
        <Mark />
      </a>
      {shown.map(({ name, title }) => (
        <a key={name} class="rail-link" href={address(name)} aria-current={name === selected ? "page" : undefined}>
          <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
            <path d={signs[name] ?? ""} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" />
          </svg>
          {title}
        </a>
      ))}
    </nav>
  );
}

/** Two documents that are joined. */
function Mark() {
  return (
    <svg viewBox="0 0 24 24" width="26" height="26" aria-hidden="true">
      <path d="M4 5h7v5H4zM13 14h7v5h-7z" fill="currentColor" />
      <path d="M7.5 10v6.5H13" fill="none" stroke="currentColor" stroke-width="1.8" />
    </svg>
  );
}

function Nowhere({ name }: { name: string }) {
  return (
    <Empty title="There is no such page">
      <p>Nothing of the console is called <code>{name}</code>. The pages are at the left.</p>
    </Empty>
  );
}
