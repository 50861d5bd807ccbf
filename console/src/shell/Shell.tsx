/** The frame around every page: the rail, who is logged in, and the work. */

import { useEffect, useRef, useState } from "preact/hooks";
import { useOwner } from "../api/owner.js";
import { sessionState } from "../api/session.js";
import { settings } from "../api/settings.js";
import { useStore } from "../api/store.js";
import { useUnsavedCounts } from "../api/unsaved.js";
import { Empty, Loading } from "../parts/basic.js";
import { Account } from "./Account.js";
import { Awaited } from "./Awaited.js";
import { LoginDialog } from "./Login.js";
import { PageFrame } from "./PageFrame.js";
import { pages, useOpenPages } from "./pages.js";
import { address, followLink, place } from "./router.js";
import { signs } from "./signs.js";

export function Shell() {
  const { page: name, rest, hash } = useStore(place);
  const { isReady, hasExpired, awaited } = useStore(sessionState);
  const [wantsLogin, setWantsLogin] = useState(false);
  const main = useRef<HTMLElement>(null);
  const page = name === "" ? pages[0] : pages.find((one) => one.name === name);
  const where = rest.join("/");
  useEffect(() => {
    document.title = [where, page?.title ?? "", settings.title].filter(Boolean).join(" · ");
  }, [page, where]);
  const skip = (event: Event) => {
    event.preventDefault();
    main.current?.focus();
  };
  const loggedIn = () => {
    // Back to where the caller was; the button that opened the window no longer exists.
    queueMicrotask(() => document.activeElement?.closest("main") ?? main.current?.focus());
  };
  return (
    <div class="shell" onClick={followLink}>
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <Rail selected={page?.name} />
      <header class="top">
        <span class="top-title">{settings.title}</span>
        <Account onLogIn={() => setWantsLogin(true)} />
      </header>
      <main class="main" id="main" tabIndex={-1} ref={main}>
        {!isReady ? <Loading />
          : awaited !== null ? <Awaited name={awaited} onLogIn={() => setWantsLogin(true)} />
          : page ? <PageFrame page={page} rest={rest} hash={hash} />
          : <Nowhere name={name} />}
      </main>
      {(wantsLogin || hasExpired) && <LoginDialog onClose={() => setWantsLogin(false)} onLoggedIn={loggedIn} />}
    </div>
  );
}

function Rail({ selected }: { selected: string | undefined }) {
  const open = useOpenPages();
  const unsaved = useUnsavedCounts(useOwner());
  return (
    <nav class="rail" aria-label="Pages">
      <a class="rail-home" href={address("")} aria-label="docgraph console">
        <Mark />
      </a>
      {open.map(({ name, title }) => (
        <a key={name} class="rail-link" href={address(name)} aria-current={name === selected ? "page" : undefined}>
          <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
            <path d={signs[name] ?? ""} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" />
          </svg>
          {title}
          <UnsavedMark count={unsaved[name] ?? 0} />
        </a>
      ))}
    </nav>
  );
}

function UnsavedMark({ count }: { count: number }) {
  if (count === 0) return null;
  return <span class="rail-mark" title="Unsaved changes">{count}<span class="offscreen"> unsaved</span></span>;
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
    <>
      <h1 class="offscreen">Not found</h1>
      <Empty title="There is no such page">
        <p>The console has no page <code>{name}</code>.</p>
      </Empty>
    </>
  );
}
