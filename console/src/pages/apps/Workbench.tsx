/** The work on one app: loaded, kept, checked, tried, compared, saved. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type AppId, nameOf } from "../../api/apps.js";
import { asApiError } from "../../api/error.js";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { Button, Empty, ErrorNotice, Loading } from "../../parts/basic.js";
import { address, go } from "../../shell/router.js";
import { Bench } from "./Bench.js";
import { FromCollections } from "./infer/FromCollections.js";
import { addressOf, readTab } from "./places.js";
import { useWork } from "./useWork.js";

interface WorkbenchProps {
  owner: string | null;
  id: AppId;
  /** `new`: it has just been named, and begins with an example; `collections`: with collections; or a tab. */
  hash: string;
}

export function Workbench({ owner, id, hash }: WorkbenchProps) {
  const work = useWork(owner, id);
  const { login } = useStore(sessionState);
  const [isDeleted, setDeleted] = useState(false);
  const kind = work.state.kind;
  const current = useRef(work);
  current.current = work;
  useEffect(() => {
    // After a new login the page continues with its content.
    if (current.current.state.kind !== "ready") void current.current.load().catch(() => undefined);
  }, [id, login]);
  useEffect(() => {
    if (hash !== "new" || kind === "loading") return;
    if (kind === "absent") current.current.begin();
    go(addressOf(id), { replace: true });
  }, [hash, kind]);
  const name = nameOf(id);
  switch (work.state.kind) {
    case "loading":
      return <Loading what={`Loading ${name}`} />;
    case "failed":
      return <Failed name={name} error={work.state.error} onRetry={() => void work.load().catch(() => undefined)} />;
    case "absent":
      if (hash === "collections") return <FromCollections id={id} work={work} mine={null} />;
      return <Absent name={name} isDeleted={isDeleted} onBegin={() => work.begin()} />;
    case "ready":
      if (hash === "collections") return <FromCollections id={id} work={work} mine={work.state.mine} />;
      return <Bench owner={owner} id={id} work={work} state={work.state} tab={readTab(hash)} onDeleted={() => setDeleted(true)} />;
  }
}

function Absent({ name, isDeleted, onBegin }: { name: string; isDeleted: boolean; onBegin: () => void }) {
  return (
    <div class="page">
      <BackToApps />
      <Empty title={isDeleted ? `${name} is deleted` : `There is no app called ${name}`}>
        {isDeleted ? <p>Its data has not changed.</p> : <p>You can write it now; nothing is stored before you save it.</p>}
        <p><Button kind={isDeleted ? "plain" : "primary"} onClick={onBegin}>{isDeleted ? "Write it again" : "Write it"}</Button></p>
      </Empty>
    </div>
  );
}

function Failed({ name, error, onRetry }: { name: string; error: unknown; onRetry: () => void }) {
  const { status } = asApiError(error);
  const isRefused = status === 401 || status === 403;
  return (
    <div class="page">
      <BackToApps />
      <h1>{name}</h1>
      <ErrorNotice error={error} title={isRefused ? "You may not read its definition" : "The definition could not be loaded"} />
      {isRefused && <p>Only administrators, and callers with a rule for it, may read definitions. You may still have the permission to <a href={address("ask", name)}>ask {name}</a>.</p>}
      <div><Button onClick={onRetry}>Try again</Button></div>
    </div>
  );
}

function BackToApps() {
  return <p><a href={address("apps")}>All apps</a></p>;
}
