/** The page Access: users, rules, API keys, why a request is denied, and apps as another caller sees them. */

import { useState } from "preact/hooks";
import { useOwner } from "../../api/owner.js";
import { type Realm, readRealm } from "../../api/realm.js";
import { Loading } from "../../parts/basic.js";
import { Tabs } from "../../parts/Tabs.js";
import type { PageProps } from "../../shell/pageProps.js";
import { address, go } from "../../shell/router.js";
import { useCallerEffect } from "../data/useCallerEffect.js";
import { Keys } from "./Keys.js";
import { LookAs } from "./LookAs.js";
import { NotOpen } from "./NotOpen.js";
import { RootOnly } from "./RootOnly.js";
import { Rules } from "./Rules.js";
import { Users } from "./Users.js";
import { Why } from "./Why.js";

type Section = "users" | "rules" | "keys" | "why" | "look";
type Found = { readonly kind: "loading" } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "ready"; readonly realm: Realm };

const sections: readonly { key: Section; label: string }[] = [
  { key: "users", label: "Users" },
  { key: "rules", label: "Rules" },
  { key: "keys", label: "API keys" },
  { key: "why", label: "Why is this denied?" },
  { key: "look", label: "View as …" },
];

export default function AccessPage({ rest, hash }: PageProps) {
  const owner = useOwner();
  const [found, retry] = useRealm();
  const section = sections.find(({ key }) => key === rest[0])?.key ?? "users";
  return (
    <div class="page data-work">
      <h1>Access</h1>
      {found.kind === "loading" && <Loading what="Checking your permissions" />}
      {found.kind === "failed" && <NotOpen error={found.error} onRetry={retry} />}
      {found.kind === "ready" && (
        <Tabs label="Parts of Access" tabs={sections} selected={section} onSelect={(key) => go(address("access", key))}>
          {section === "users" && <Users key={owner} realm={found.realm} hash={hash} />}
          {section === "keys" && <Keys key={owner} />}
          {section === "why" && <RootOnly title="Explanations are for the root role" rootRole={found.realm.rootRole}><Why key={owner} hash={hash} /></RootOnly>}
          {section === "look" && <RootOnly title="Viewing as another caller is for the root role" rootRole={found.realm.rootRole}><LookAs /></RootOnly>}
          {section === "rules" && <Rules key={owner} owner={owner} realm={found.realm} hash={hash} />}
        </Tabs>
      )}
    </div>
  );
}

function useRealm(): readonly [Found, () => void] {
  const [found, setFound] = useState<Found>({ kind: "loading" });
  const [attempt, setAttempt] = useState(0);
  useCallerEffect((signal) => {
    readRealm(signal).then(
      (realm) => setFound({ kind: "ready", realm }),
      (error: unknown) => signal.aborted || setFound({ kind: "failed", error }),
    );
  }, [attempt]);
  return [found, () => setAttempt(attempt + 1)];
}
