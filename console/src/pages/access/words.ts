/** What several forms about users say. */

const strengths = ["weak", "fair", "good", "strong", "very strong"] as const;

/** What a password has to be like. */
export function describeDemand(strength: number | null): string {
  const most = "At most 72 bytes.";
  return strength === null || strength === 0 ? most : `It has to be ${strengths[strength] ?? "strong"}. ${most}`;
}

export function noRootRole(rootRole: string | null, otherwise: string): string {
  return rootRole === null ? otherwise : `${otherwise} Nobody can give the role ${rootRole} here: that is done on the server, by docgraph users.`;
}
