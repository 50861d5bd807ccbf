/** Collections or databases as cards with their sizes, which are read when a card is visible. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Figures, type Segments, dataPath, readFigures } from "../../api/data.js";
import { useRights } from "../../api/rights.js";
import { addressOf } from "./places.js";
import { tellFigures } from "./tellFigures.js";
import { useCallerEffect } from "./useCallerEffect.js";

interface CardsProps {
  label: string;
  segments: Segments;
  names: readonly string[];
  kind: "database" | "databases";
  /** What a collection is for, by its name. */
  purposes?: ReadonlyMap<string, string>;
}

export function Cards({ label, segments, names, kind, purposes }: CardsProps) {
  return (
    <ul class="data-names" aria-label={label}>
      {names.map((name) => <Card key={name} path={[...segments, name]} name={name} kind={kind} purpose={purposes?.get(name)} />)}
    </ul>
  );
}

function Card({ path, name, kind, purpose }: { path: Segments; name: string; kind: CardsProps["kind"]; purpose: string | undefined }) {
  const [figures, setFigures] = useState<Figures | null>(null);
  const [item, isSeen] = useSeen();
  const hasIndexes = kind === "database";
  const [size, indexes] = [dataPath([...path, "_size"]), hasIndexes ? dataPath([...path, "_indexes"]) : ""];
  const rights = useRights(isSeen ? [size, indexes] : []);
  useCallerEffect((signal) => {
    if (!isSeen || !rights.isKnown) return;
    void readFigures(path, { size: rights.may("GET", size), indexes: hasIndexes && rights.may("GET", indexes) }, signal).then((found) => signal.aborted || setFigures(found));
  }, [isSeen, rights.isKnown]);
  const told = figures === null ? [] : tellFigures(figures, hasIndexes ? "document" : "collection");
  return (
    <li ref={item}>
      <a href={addressOf(path)}>{name}</a>
      <span class="soft data-figures">{[...(purpose === undefined ? [] : [purpose]), ...told].join(" · ")}</span>
    </li>
  );
}

/** Whether an item was on the screen. */
function useSeen() {
  const item = useRef<HTMLLIElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (item.current === null || isSeen) return undefined;
    const observer = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && setSeen(true));
    observer.observe(item.current);
    return () => observer.disconnect();
  }, [isSeen]);
  return [item, isSeen] as const;
}
