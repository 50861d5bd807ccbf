/** Headers that are sent with a query: one `Name: value` in each line. */

import type { RequestHeaders } from "../../api/graphql.js";
import type { Finding } from "../../parts/Editor.js";

export interface HeadersReading {
  readonly headers: RequestHeaders;
  readonly findings: readonly Finding[];
  /** Some value may be a secret: the text is not stored in this browser. */
  readonly isSecret: boolean;
}

const mostHeaders = 30;
const longestValue = 4000; // characters
const credentials = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
const own = ["accept", "content-type", "no-auth-challenge"];
// Browsers leave these out, or write them themselves.
const ofBrowser = /^(accept-charset|accept-encoding|access-control-.*|connection|content-length|date|dnt|expect|host|keep-alive|origin|permissions-policy|referer|te|trailer|transfer-encoding|upgrade|user-agent|via|proxy-.*|sec-.*)$/;
const secret = /auth|token|secret|passw|key|session|credential|signature/;

/** The headers of a text; lines with a finding are not sent. */
export function readHeaders(text: string): HeadersReading {
  const headers: Record<string, string> = {};
  const findings: Finding[] = [];
  let isSecret = false;
  text.split("\n").forEach((line, index) => {
    if (line.trim() === "" || line.trimStart().startsWith("#")) return;
    const [, name = "", value = ""] = /^\s*([^:]*?)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    const lower = name.toLowerCase();
    const fault = findFault(lower, value, Object.keys(headers).map((one) => one.toLowerCase())) ?? (name === "" ? "Write a header as Name: value" : null);
    isSecret ||= credentials.includes(lower) || secret.test(lower);
    if (fault !== null) findings.push({ line: index + 1, severity: "error", message: fault });
    else {
      headers[name] = value;
      if (secret.test(lower)) findings.push({ line: index + 1, severity: "info", message: `${name} may be a secret: it is sent, but this browser does not store the headers of this tab` });
    }
  });
  return { headers, findings, isSecret };
}

function findFault(name: string, value: string, others: readonly string[]): string | null {
  if (credentials.includes(name)) return "Not sent: the console sends your login. Log in at the top right to use another user";
  if (own.includes(name)) return "Not sent: the console sets this header";
  if (ofBrowser.test(name)) return "Not sent: browsers set this header themselves";
  if (name !== "" && !/^[!#$%&'*+.^_`|~\w-]+$/.test(name)) return "A name has letters, digits and - only, without spaces";
  if (!/^[\t\x20-\x7e\xa0-\xff]*$/.test(value)) return "The value has characters that a header cannot have";
  if (value.length > longestValue) return `The value is longer than ${longestValue} characters`;
  if (others.includes(name)) return "This header is given twice";
  return others.length >= mostHeaders ? `At most ${mostHeaders} headers are sent` : null;
}

/** What this browser may store of a text: nothing where a value may be a secret. */
export function storable(text: string): string {
  return readHeaders(text).isSecret ? "" : text;
}
