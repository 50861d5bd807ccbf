/** The filter and the sort order. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import { Button } from "../../parts/basic.js";
import { Editor } from "../../parts/Editor.js";
import { go } from "../../shell/router.js";
import type { Fields } from "../../api/typed.js";
import { completeFilter } from "./completeFilter.js";
import { type Spot, addressOf, start } from "./places.js";
import { namesOf, summarize } from "./summary.js";
import { useQueryCheck } from "./useQueryCheck.js";

interface QueryFormProps {
  segments: Segments;
  spot: Spot;
  /** What is shown now: their names are offered while a filter is typed. */
  documents: readonly Fields[];
  /** The same query was sent again. */
  onRepeat: () => void;
}

export function QueryForm({ segments, spot, documents, onRepeat }: QueryFormProps) {
  const [filter, setFilter] = useState(spot.filter);
  const [sort, setSort] = useState(spot.sort);
  useEffect(() => {
    setFilter(spot.filter);
    setSort(spot.sort);
  }, [spot.filter, spot.sort]);
  const findings = useQueryCheck(segments, { filter, sort });
  const ask = (asked: { filter: string; sort: string }) => {
    if (asked.filter === spot.filter && asked.sort === spot.sort) onRepeat();
    else go(addressOf(segments, { ...spot, ...asked, begin: start }));
  };
  const find = () => {
    ask({ filter, sort });
    return true;
  };
  const [finding] = findings.filter;
  const names = useMemo(() => namesOf(summarize(documents)), [documents]);
  return (
    <form class="data-query" onSubmit={(event) => (event.preventDefault(), find())}>
      <div class="data-filter-box">
        <span class="data-label" aria-hidden="true">Filter</span>
        <div class="data-filter">
        <Editor label="Filter" language="shell" value={filter} onChange={setFilter} complete={(before) => completeFilter(before, names)} findings={findings.filter} keys={[{ key: "Mod-Enter", run: find }]} />
        </div>
      </div>
      <div class="data-sort">
        <label class="data-sort-label">
          <span class="data-label">Sort</span>
          <input class="input" type="text" value={sort} placeholder="newest first" autocomplete="off" spellcheck={false} onInput={(event) => setSort(event.currentTarget.value)} />
        </label>
        <Button kind="primary" type="submit">Find</Button>
        {(spot.filter !== "" || spot.sort !== "" || filter !== "" || sort !== "") && <Button kind="quiet" onClick={() => { setFilter(""); setSort(""); ask({ filter: "", sort: "" }); }}>Clear</Button>}
      </div>
      <p class="data-hint soft" role="status">
        {finding !== undefined ? <span class="data-wrong">Filter, line {finding.line}: {finding.message}</span>
          : findings.sort !== null ? <span class="data-wrong">{findings.sort}</span>
          : <>A filter is a MongoDB query, such as <code>{'{"age": {"$gt": 20}}'}</code>; a sort is <code>-age</code> or <code>{'{"age": -1}'}</code>.</>}
      </p>
    </form>
  );
}
