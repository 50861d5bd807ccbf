/** A query as a program that sends it: with curl, with fetch, and in Python. Passwords are in none of them. */

import { type Question, type RequestHeaders, writeQuestion } from "../../api/graphql.js";

export interface Sent {
  readonly url: string;
  readonly question: Question;
  readonly headers: RequestHeaders;
  /** Who is logged in; null: without a login. */
  readonly user: string | null;
}

export type SnippetKind = "curl" | "fetch" | "python";

export const snippetKinds: readonly { readonly key: SnippetKind; readonly label: string }[] = [
  { key: "curl", label: "curl" },
  { key: "fetch", label: "fetch" },
  { key: "python", label: "Python" },
];

const json = "application/json";

export function writeSnippet(kind: SnippetKind, sent: Sent): string {
  return { curl: writeCurl, fetch: writeFetch, python: writePython }[kind](sent);
}

/** curl asks for the password. */
function writeCurl({ url, question, headers, user }: Sent): string {
  const fields = Object.entries({ "Content-Type": json, ...headers }).map(([name, value]) => `--header ${quoteShell(`${name}: ${value}`)}`);
  const login = user === null ? [] : [`--user ${quoteShell(user)}`];
  return [`curl ${quoteShell(url)}`, ...login, ...fields, `--data-binary ${quoteShell(writeQuestion(question))}`].join(" \\\n  ");
}

function quoteShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The body is a text: a program that reads a long number rounds it. */
function writeFetch({ url, question, headers, user }: Sent): string {
  const fields = Object.entries({ "Content-Type": json, ...headers }).map(([name, value]) => `    ${quoteScript(name)}: ${quoteScript(value)},`);
  const bytes = user === null ? "" : quoteScript(`${user}:`);
  const login = user === null ? [] : [`    Authorization: "Basic " + btoa(String.fromCharCode(...new TextEncoder().encode(${bytes} + password))),`];
  return [
    ...(user === null ? [] : ['const password = ""; // yours', ""]),
    `const response = await fetch(${quoteScript(url)}, {`,
    '  method: "POST",',
    "  headers: {",
    ...fields,
    ...login,
    "  },",
    `  body: ${quoteScript(writeQuestion(question))},`,
    "});",
    "console.log(await response.json());",
    "",
  ].join("\n");
}

/** The literal is one of JavaScript, and one of Python, too. */
function quoteScript(text: string): string {
  return JSON.stringify(text);
}

function writePython({ url, question: { query, variables, operation }, headers, user }: Sent): string {
  const lines = [
    `        "query": ${quoteLines(query)},`,
    ...(variables.trim() === "" ? [] : [`        "variables": json.loads(${quoteLines(variables)}),`]),
    ...(operation === null ? [] : [`        "operationName": ${quoteScript(operation)},`]),
  ];
  const fields = Object.entries(headers).map(([name, value]) => `${quoteScript(name)}: ${quoteScript(value)}`);
  const modules = [...(user === null ? [] : ["import getpass"]), ...(variables.trim() === "" ? [] : ["import json"])];
  return [
    ...(modules.length === 0 ? [] : [...modules, ""]),
    "import requests",
    "",
    "response = requests.post(",
    `    ${quoteScript(url)},`,
    ...(user === null ? [] : [`    auth=(${quoteScript(user)}.encode(), getpass.getpass().encode()),`]),
    ...(fields.length === 0 ? [] : [`    headers={${fields.join(", ")}},`]),
    "    json={",
    ...lines,
    "    },",
    ")",
    "print(response.json())",
    "",
  ].join("\n");
}

/** A text with its lines, where nothing in it needs to be escaped. */
function quoteLines(text: string): string {
  const isPlain = !text.includes("\\") && !text.includes("\r") && !text.includes("'''") && !text.endsWith("'");
  return text.includes("\n") && isPlain ? `'''${text}'''` : quoteScript(text);
}
