/** The names of databases, or of the collections of one; callers who may not list them can still open one by its path. */

import { useState } from "preact/hooks";
import { type PlaceKind, type Segments, dataPath, listNames } from "../../api/data.js";
import { asApiError } from "../../api/error.js";
import { refusal, useRights } from "../../api/rights.js";
import { sessionState } from "../../api/session.js";
import { settings } from "../../api/settings.js";
import { useStore } from "../../api/store.js";
import { Button, Empty, ErrorNotice, Field, Loading, Notice } from "../../parts/basic.js";
import { go, useNoted } from "../../shell/router.js";
import { Cards } from "./Cards.js";
import { NewCollectionDialog } from "./NewCollection.js";
import { addressOf, readPath } from "./places.js";
import { findMounted, withoutListed } from "./mounted.js";
import { useOwn } from "./useOwn.js";
import { Trail } from "./Trail.js";
import { useCallerEffect } from "./useCallerEffect.js";
import { dropVisit, listVisits } from "./visits.js";
import { Unsaved } from "./Unsaved.js";

interface NamesProps {
  owner: string | null;
  segments: Segments;
  kind: Exclude<PlaceKind, "collection">;
}

type Found = { readonly names: readonly string[] } | { readonly error: unknown } | null;

const portion = 200;
const mostChecked = 400; // names whose permissions are asked for
const fewEnough = 12; // to be seen at a glance, without a filter

export function Names({ owner, segments, kind }: NamesProps) {
  const { login } = useStore(sessionState);
  const [found, setFound] = useState<Found>(null);
  const [mounted, setMounted] = useState<readonly string[]>([]);
  const [attempt, setAttempt] = useState(0);
  const [isMaking, setMaking] = useState(false);
  const isTop = segments.length === 0;
  const [here, below, described] = [dataPath(segments), dataPath([...segments, "name"]), settings.paths["openapi"] ?? ""];
  const rights = useRights([here, below, described]);
  const mayMake = kind === "database" && rights.may("PUT", below);
  const mayList = rights.may("GET", here);
  useCallerEffect((signal) => {
    if (!rights.isKnown) return;
    if (!mayList) setFound({ error: refusal() });
    else listNames(segments, signal).then(
      (names) => setFound({ names }),
      (error: unknown) => signal.aborted || setFound({ error }),
    );
    if (isTop && rights.may("GET", described)) findMounted(signal).then(setMounted, () => setMounted([])); // only some may read where things are
  }, [attempt, rights.isKnown, mayList]);
  const retry = () => setAttempt(attempt + 1);
  return (
    <div class="page">
      <Trail segments={segments} />
      <div class="data-head">
        <h1>{isTop ? "Data" : segments[segments.length - 1]}</h1>
        {mayMake && found !== null && "names" in found && <Button onClick={() => setMaking(true)}>New collection</Button>}
      </div>
      <Unsaved owner={owner} segments={segments} />
      {found === null && <Loading what="Loading the names" />}
      {found !== null && "error" in found && <NotListed error={found.error} kind={kind} segments={segments} isLoggedIn={login !== null} onRetry={retry} />}
      {found !== null && "names" in found && <NameList segments={segments} kind={kind} names={found.names} onNew={mayMake ? () => setMaking(true) : null} />}
      {isTop && <OtherPlaces owner={owner} mounted={found !== null && "names" in found ? withoutListed(mounted, found.names) : mounted} needsVisits={found !== null && "error" in found} />}
      {isMaking && <NewCollectionDialog segments={segments} onClose={() => setMaking(false)} />}
    </div>
  );
}

function NameList({ segments, kind, names, onNew }: Omit<NamesProps, "owner"> & { names: readonly string[]; onNew: (() => void) | null }) {
  const [filter, setFilter] = useNoted("find");
  const [most, setMost] = useState(portion);
  const purposes = useOwn(segments);
  const paths = names.slice(0, mostChecked).map((name) => dataPath([...segments, name]));
  const rights = useRights(kind === "database" ? paths : []);
  // The list has all names; those that the caller may not read, such as users and rules, are not theirs to open.
  const open = kind === "database" ? names.filter((_, index) => index >= mostChecked || rights.may("GET", paths[index]!)) : names;
  const fitting = open.filter((name) => name.toLowerCase().includes(filter.trim().toLowerCase()));
  const [others, own] = kind === "database" ? [fitting.filter((name) => !purposes.has(name)), fitting.filter((name) => purposes.has(name))] : [fitting, []];
  const what = kind === "database" ? "collection" : "database";
  if (!rights.isKnown) return <Loading what="Checking your permissions" />;
  if (open.length === 0) {
    return (
      <Empty title={names.length === 0 ? `No ${what}s yet` : `There are no ${what}s that you may read`}>
        {onNew !== null && <p><Button kind="primary" onClick={onNew}>New collection</Button></p>}
      </Empty>
    );
  }
  return (
    <>
      {open.length > fewEnough && (
        <input class="input data-names-filter" type="search" aria-label={`Filter ${what}s`} placeholder={`Filter ${open.length} ${what}s`} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      )}
      <Cards label={kind === "database" ? "Collections" : "Databases"} segments={segments} kind={kind} names={others.slice(0, most)} />
      {fitting.length === 0 && <p class="soft">No {what} has that in its name.</p>}
      {others.length > most && <div><Button onClick={() => setMost(most + portion)}>{others.length - most} more</Button></div>}
      {own.length > 0 && (
        <section class="data-others" aria-label="System collections">
          <h2>System</h2>
          <Cards label="System collections" segments={segments} kind={kind} names={own} purposes={purposes} />
        </section>
      )}
    </>
  );
}

interface NotListedProps {
  error: unknown;
  kind: NamesProps["kind"];
  segments: Segments;
  isLoggedIn: boolean;
  onRetry: () => void;
}

function NotListed({ error, kind, segments, isLoggedIn, onRetry }: NotListedProps) {
  const { status } = asApiError(error);
  const what = kind === "database" ? "collections" : "databases";
  if (status === 401 || status === 403) {
    return (
      <Notice title={`You may not list the ${what}`}>
        <p>{isLoggedIn ? "You may still have the permission to read some of them: open one by its path." : "Log in at the top right, or open a public one by its path."}</p>
      </Notice>
    );
  }
  if (status === 404) return <Notice title={`There is no data at ${dataPath(segments)}`}><p>The data of this server is at other paths: open one by its path.</p></Notice>;
  return (
    <>
      <ErrorNotice error={error} title={`The ${what} could not be listed`} />
      <div><Button onClick={onRetry}>Try again</Button></div>
    </>
  );
}

interface OtherPlacesProps {
  owner: string | null;
  mounted: readonly string[];
  /** No list leads to what was opened before. */
  needsVisits: boolean;
}

/** A path to type, those that were opened before, and those in the server's description. */
function OtherPlaces({ owner, mounted, needsVisits }: OtherPlacesProps) {
  const [path, setPath] = useState("");
  const [visits, setVisits] = useState(() => listVisits(owner));
  const open = (event: Event) => {
    event.preventDefault();
    const wanted = readPath(path);
    if (wanted.length > 0) go(addressOf(wanted));
  };
  const forget = (visit: string) => {
    dropVisit(owner, visit);
    setVisits(listVisits(owner));
  };
  return (
    <section class="data-others" aria-label="Other paths">
      <form class="data-open" onSubmit={open}>
        <Field label="Open by path" hint="such as shop/orders; a slash inside a name is %2F" value={path} onInput={setPath} autocomplete="off" />
        <Button type="submit" disabled={path.trim() === ""}>Open</Button>
      </form>
      {mounted.length > 0 && (
        <>
          <h2>Mounted elsewhere</h2>
          <ul class="data-names" aria-label="Mounted elsewhere">{mounted.map((one) => <li key={one}><a href={addressOf(readPath(one))}>{readPath(one).join(" / ")}</a></li>)}</ul>
        </>
      )}
      {needsVisits && visits.length > 0 && (
        <>
          <h2>Opened before</h2>
          <ul class="data-names" aria-label="Opened before">
            {visits.map((one) => (
              <li key={one}>
                <a href={addressOf(readPath(one))}>{readPath(one).join(" / ")}</a>
                <Button kind="quiet" aria-label={`Forget ${readPath(one).join(" / ")}`} onClick={() => forget(one)}>×</Button>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
