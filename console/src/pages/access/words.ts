/** Texts that several forms about users share. */

import { asApiError, isRecord } from "../../api/error.js";

const strengths = ["weak", "fair", "good", "strong", "very strong"] as const;

/** The requirements for a password. */
export function describeDemand(strength: number | null): string {
  const most = "At most 72 bytes.";
  return strength === null || strength === 0 ? most : `It has to be ${strengths[strength] ?? "strong"}. ${most}`;
}

/** Whether a password is guessed immediately: it is short, one character, or the name. */
export function isGuessed(password: string, name: string): boolean {
  const text = password.toLowerCase();
  return password !== "" && (password.length < 8 || new Set(text).size < 3 || text === name.trim().toLowerCase());
}

/** What the server advises of a weak password, one sentence each. */
export function adviceIn(error: unknown): readonly string[] {
  const { status, details } = asApiError(error);
  if (status !== 400 || !isRecord(details)) return [];
  const { warning, suggestions } = details;
  return [warning, ...(Array.isArray(suggestions) ? (suggestions as unknown[]) : [])].filter((one): one is string => typeof one === "string" && one !== "");
}

export function noRootRole(rootRole: string | null, otherwise: string): string {
  return rootRole === null ? otherwise : `${otherwise} The role ${rootRole} cannot be given here: use docgraph users on the server.`;
}
