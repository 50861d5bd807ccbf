/** A table that scrolls by itself when it is wider than the page. */

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  readonly title: string;
  readonly render: (row: Row) => ComponentChildren;
  /** Numbers are aligned to the right. */
  readonly isNumber?: boolean;
  /** The content of the head instead of the title, such as a button. */
  readonly head?: ComponentChildren;
  readonly sorted?: "ascending" | "descending" | undefined;
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey?: (row: Row, index: number) => string | number;
}

export function Table<Row>({ label, columns, rows, rowKey = (_, index) => index }: TableProps<Row>) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="table">
        <thead>
          <tr>
            {columns.map(({ title, isNumber, head = title, sorted }) => (
              <th key={title} scope="col" class={isNumber ? "number" : undefined} aria-sort={sorted}>{head}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={rowKey(row, index)}>
              {columns.map(({ title, render, isNumber }) => (
                <td key={title} class={isNumber ? "number" : undefined}>{render(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
