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
const notStored = "this browser does not store the headers of this tab";
const credentials = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
const own = ["accept", "content-type", "no-auth-challenge"];
// Browsers leave these out, or write them themselves.
const ofBrowser = /^(accept-charset|accept-encoding|access-control-.*|connection|content-length|date|dnt|expect|host|keep-alive|origin|permissions-policy|referer|te|trailer|transfer-encoding|upgrade|user-agent|via|proxy-.*|sec-.*)$/;
// Anywhere in a line: in its name, its value or a comment.
const secretWords = /auth|token|secret|pass|pwd|key|sess|cred|signature|hmac|jwt|cookie|csrf|xsrf|bearer|otp|private|nonce|(basic|digest|negotiate)\s+\S|sid(?![a-z])|(?<![a-z])(sig|pin)(?![a-z])|:\/\/[^/\s]*@/i;
const jsonToken = /eyJ[\w-]/;
const longWord = /[\w+/=~.-]{12,}/g;

/** The headers of a text; lines with a finding are not sent. */
export function readHeaders(text: string): HeadersReading {
  const headers: Record<string, string> = {};
  const findings: Finding[] = [];
  let isSecret = false;
  text.split("\n").forEach((line, index) => {
    const add = (severity: Finding["severity"], message: string) => findings.push({ line: index + 1, severity, message });
    const isComment = line.trimStart().startsWith("#");
    const [, name = "", value = ""] = /^\s*([^:]*?)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    const isDoubtful = mayBeSecret(line) || (!isComment && name === "" && line.trim() !== "");
    isSecret ||= isDoubtful;
    if (!isComment && line.trim() !== "") {
      const fault = findFault(name.toLowerCase(), value, Object.keys(headers).map((one) => one.toLowerCase())) ?? (name === "" ? "Write a header as Name: value" : null);
      if (fault !== null) {
        add("error", fault);
        return;
      }
      headers[name] = value;
    }
    if (isDoubtful) add("info", isComment ? `This line may have a secret: ${notStored}` : `${name} may be a secret: it is sent, but ${notStored}`);
  });
  return { headers, findings, isSecret };
}

/** Whether a line, which may be a comment, may have a secret; in doubt it has one. */
function mayBeSecret(line: string): boolean {
  const isRandom = (word: string) => (/\d/.test(word) && /[a-z]/i.test(word)) || /\w{24}/.test(word);
  return secretWords.test(line) || jsonToken.test(line) || (line.match(longWord) ?? []).some(isRandom);
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
