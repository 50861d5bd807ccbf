/** A list of an answer as a table. */

import { useMemo, useState } from "preact/hooks";
import { Button, Empty } from "../../parts/basic.js";
import { Table } from "../../parts/Table.js";
import { describeCount } from "./figures.js";
import { type List, cellOf, findColumns } from "./lists.js";

const portion = 100;
const mostRows = 2000; // more rows slow the browser down

/** `chosen`: the place of the list that is shown. */
export function AnswerTable({ lists, chosen, onChoose }: { lists: readonly List[]; chosen: number; onChoose: (chosen: number) => void }) {
  const [shown, setShown] = useState(portion);
  const list = lists[chosen] ?? lists[0];
  const columns = useMemo(() => findColumns(list?.rows ?? []), [list]);
  if (list === undefined) {
    return <Empty title="Nothing to tabulate"><p class="soft">A table shows a list of objects, and this answer has none. The tree shows it as it is.</p></Empty>;
  }
  const choose = (event: { currentTarget: HTMLSelectElement }) => {
    onChoose(Number(event.currentTarget.value));
    setShown(portion);
  };
  const rows = list.rows.slice(0, shown);
  return (
    <div class="answer-table">
      {lists.length > 1 && (
        <label class="answer-list">
          List
          <select value={String(lists.indexOf(list))} onChange={choose}>
            {lists.map(({ name, rows: all }, index) => <option key={name} value={String(index)}>{name} ({describeCount(all.length)})</option>)}
          </select>
        </label>
      )}
      <Table
        label={`Rows of ${list.name}`}
        rows={rows}
        columns={columns.names.map((name) => ({
          title: name,
          render: (row: unknown) => <span title={cellOf(row, name)}>{cellOf(row, name)}</span>,
          isNumber: rows.length > 0 && rows.every((row) => /^(-?[\d.]+(e[+-]?\d+)?)?$/.test(cellOf(row, name))) && rows.some((row) => cellOf(row, name) !== ""),
        }))}
      />
      <p class="soft answer-note">
        {describeCount(rows.length)} of {describeCount(list.rows.length)} rows
        {columns.left > 0 && `, ${columns.left} more columns are not shown`}
        {rows.length < list.rows.length && shown >= mostRows && ". The download has all of them."}
      </p>
      {rows.length < list.rows.length && shown < mostRows && (
        <Button kind="quiet" onClick={() => setShown(Math.min(mostRows, shown + portion * 5))}>Show more rows</Button>
      )}
    </div>
  );
}
