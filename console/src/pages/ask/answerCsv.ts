/** A list of an answer as CSV: all of its rows and columns, in the form that the server has for CSV. */

import { Numeral } from "../../parts/json.js";
import { allColumns, valueOf } from "./lists.js";

const formula = /^[=+\-@\t\r]/;

export function writeCsv(rows: readonly unknown[]): string {
  const columns = allColumns(rows);
  const lines = [columns.map(writeText), ...rows.map((row) => columns.map((column) => writeCell(valueOf(row, column))))];
  return lines.map((cells) => `${cells.length === 1 && cells[0] === "" ? '""' : cells.join(",")}\r\n`).join("");
}

function writeCell(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return writeText(value);
  if (value instanceof Numeral) return value.text;
  return quote(JSON.stringify(value, keepDigits));
}

/** Spreadsheets execute a text that begins like a formula, and its author may be anyone. */
function writeText(text: string): string {
  if (text === "") return '""';
  return quote(formula.test(text) ? `'${text}` : text);
}

function quote(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function keepDigits(_: string, value: unknown): unknown {
  return value instanceof Numeral ? value.text : value;
}
