/** Why the server rejected something, in words for the usual statuses. */

import { asApiError } from "../../api/error.js";
import { Notice } from "../../parts/basic.js";

interface RefusalProps {
  error: unknown;
  title: string;
  said?: Readonly<Record<number, string>>;
}

const usual: Readonly<Record<number, string>> = {
  401: "Log in, then try again.",
  403: "You do not have the permission to do this.",
};

// Answers that say no more than their status.
const bare: readonly string[] = ["http-error", "unauthenticated", "forbidden"];

export function Refusal({ error, title, said = {} }: RefusalProps) {
  const { status, message, hint, code } = asApiError(error);
  const told = code === "http-error" ? `The server answered ${status}.` : message; // 412 has no body
  const words = said[status] ?? usual[status];
  return (
    <Notice kind={status === 401 || status === 403 ? "warning" : "error"} title={title}>
      {words !== undefined && <p>{words}</p>}
      {(words === undefined || !bare.includes(code)) && <p>{told}</p>}
      {hint !== undefined && <p class="soft">{hint}</p>}
    </Notice>
  );
}
