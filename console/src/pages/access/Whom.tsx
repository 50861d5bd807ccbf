/** The choice of a caller: not logged in, with roles, or a user. */

import { useId } from "preact/hooks";
import type { As } from "../../api/tools.js";
import { Field } from "../../parts/basic.js";
import { RolesField } from "../../parts/Roles.js";

export type Who = "anonymous" | "roles" | "user";

export interface Chosen {
  readonly who: Who;
  readonly roles: readonly string[];
  readonly user: string;
}

export const noneChosen: Chosen = { who: "roles", roles: [], user: "" };

const choices: readonly { key: Who; label: string }[] = [
  { key: "roles", label: "a caller with roles" },
  { key: "user", label: "a user" },
  { key: "anonymous", label: "a caller who is not logged in" },
];

export function WhomField({ label, chosen, onChange }: { label: string; chosen: Chosen; onChange: (chosen: Chosen) => void }) {
  const id = useId();
  return (
    <>
      <div class="field">
        <label for={id}>{label}</label>
        <select id={id} class="input" value={chosen.who} onChange={(event) => onChange({ ...chosen, who: event.currentTarget.value as Who })}>
          {choices.map(({ key, label: said }) => <option key={key} value={key}>{said}</option>)}
        </select>
      </div>
      {chosen.who === "roles" && <RolesField label="Roles" roles={chosen.roles} onChange={(roles) => onChange({ ...chosen, roles })} />}
      {chosen.who === "user" && <Field label="User" autocomplete="off" value={chosen.user} onInput={(user) => onChange({ ...chosen, user })} />}
    </>
  );
}

export function isComplete({ who, roles, user }: Chosen): boolean {
  return who === "anonymous" || (who === "roles" ? roles.length > 0 : user.trim() !== "");
}

export function asOf({ who, roles, user }: Chosen): As {
  if (who === "user") return { user: user.trim() };
  return { roles: who === "roles" ? roles : [] };
}
