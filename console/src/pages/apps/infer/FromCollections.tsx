/** An app from collections: choose them, review the result, continue with it as a draft. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type AppId, nameOf } from "../../../api/apps.js";
import { type Additions, type NewApp, inferAdditions, inferApp, inferPath } from "../../../api/infer.js";
import { useRights } from "../../../api/rights.js";
import { readTexts } from "../../../api/tools.js";
import { Empty, Loading } from "../../../parts/basic.js";
import { address, go } from "../../../shell/router.js";
import { Refusal } from "../../data/Refusal.js";
import { addressOf } from "../places.js";
import type { Work } from "../useWork.js";
import { type Version, writeDefinition } from "../work.js";
import { AdditionsView } from "./Additions.js";
import { CollectionChoice } from "./CollectionChoice.js";
import { Review } from "./Review.js";
import { type Parts, leaveOut } from "./schema.js";

type Stage =
  | { readonly kind: "choosing" | "reading" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "new"; readonly app: NewApp }
  | { readonly kind: "additions"; readonly additions: Additions; readonly db: string; readonly collections: readonly string[] };

interface FromCollectionsProps {
  id: AppId;
  work: Work;
  /** The current draft; null for a new app. */
  mine: Version | null;
}

export function FromCollections({ id, work, mine }: FromCollectionsProps) {
  const rights = useRights([inferPath]);
  const name = nameOf(id);
  return (
    <div class="page infer">
      <h1><a href={address("apps")}>Apps</a><span class="soft" aria-hidden="true"> / </span>{mine === null ? name : <a href={addressOf(id)}>{name}</a>}<span class="soft" aria-hidden="true"> / </span>From my collections</h1>
      {!rights.isKnown ? <Loading />
        : inferPath !== "" && rights.may("POST", inferPath) ? <Steps id={id} work={work} mine={mine} />
        : <Empty title="You may not read collections here"><p>Ask an administrator for the permission to use <code>{inferPath || "/_tools/infer"}</code>.</p></Empty>}
    </div>
  );
}

function Steps({ id, work, mine }: FromCollectionsProps) {
  const [stage, setStage] = useState<Stage>({ kind: "choosing" });
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController | null>(null);
  const definition = useMemo(() => (mine === null ? null : writeDefinition(id, mine)), [id, mine]);
  useEffect(() => () => running.current?.abort(), []);
  const read = (db: string, collections: readonly string[]) => {
    const controller = new AbortController();
    running.current = controller;
    setStage({ kind: "reading" });
    find(definition, db, collections, controller.signal).then(setStage, (error: unknown) => controller.signal.aborted || setStage({ kind: "failed", error }));
  };
  const take = async (app: NewApp, parts: Parts, isTrying: boolean) => {
    setBusy(true);
    work.begin(await writeVersion(id, app, parts));
    go(addressOf(id, isTrying ? "try" : "definition"));
  };
  /** Without what is left out, the server writes the texts again: mappings of the rest depend on it. */
  const add = async ({ additions, db, collections }: Extract<Stage, { kind: "additions" }>, left: ReadonlySet<string>) => {
    let texts = additions.definition;
    if (left.size > 0 && mine !== null) {
      const schema = leaveOut(mine.texts.schema, texts.schema, left);
      const controller = new AbortController();
      running.current = controller;
      setBusy(true);
      try {
        texts = (await inferAdditions(writeDefinition(id, { ...mine, texts: { ...mine.texts, schema } }), db, collections, controller.signal)).definition;
      } catch (error) {
        if (!controller.signal.aborted) setStage({ kind: "failed", error });
        return;
      } finally {
        setBusy(false);
      }
    }
    work.change("schema", texts.schema);
    work.change("mappings", texts.mappings);
    go(addressOf(id));
  };
  const back = () => setStage({ kind: "choosing" });
  switch (stage.kind) {
    case "new":
      return <Review app={stage.app} isBusy={isBusy} onTake={(parts, isTrying) => void take(stage.app, parts, isTrying)} onBack={back} />;
    case "additions":
      return <AdditionsView additions={stage.additions} isBusy={isBusy} onTake={(left) => void add(stage, left)} onBack={back} />;
    default:
      return (
        <>
          {stage.kind === "failed" && <Refusal error={stage.error} title="Nothing was found" />}
          <CollectionChoice definition={definition} isReading={stage.kind === "reading"} onRead={read} />
        </>
      );
  }
}

async function find(definition: string | null, db: string, collections: readonly string[], signal: AbortSignal): Promise<Stage> {
  if (definition === null) return { kind: "new", app: await inferApp(db, collections, signal) };
  return { kind: "additions", additions: await inferAdditions(definition, db, collections, signal), db, collections };
}

/** The inferred app as texts: YAML from the server, or JSON without it. */
async function writeVersion(id: AppId, { definition: { descriptor } }: NewApp, { schema, mappings }: Parts): Promise<Version> {
  const plain = { mappings: JSON.stringify(mappings, null, 2), descriptor: JSON.stringify(descriptor, null, 2) };
  const texts = await readTexts(JSON.stringify({ _id: JSON.parse(id) as unknown, mappings, descriptor })).catch(() => ({}));
  return { etag: null, texts: { schema, ...plain, ...texts }, others: [] };
}
