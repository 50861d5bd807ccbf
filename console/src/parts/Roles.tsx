/** A list of roles to be changed: Enter or a comma adds one, a button removes one. */

import { useId, useState } from "preact/hooks";

interface RolesFieldProps {
  label: string;
  roles: readonly string[];
  onChange: (roles: readonly string[]) => void;
  hint?: string;
  /** Names that are offered while typing. */
  known?: readonly string[];
}

export function RolesField({ label, roles, onChange, hint, known = [] }: RolesFieldProps) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const add = (text: string) => {
    const names = text.split(",").map((one) => one.trim()).filter((one) => one !== "" && !roles.includes(one));
    if (names.length > 0) onChange([...roles, ...new Set(names)]);
    setTyped("");
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && typed.trim() !== "") {
      event.preventDefault();
      add(typed);
    } else if (event.key === "Backspace" && typed === "" && roles.length > 0) onChange(roles.slice(0, -1));
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="roles-field">
        {roles.length > 0 && (
          <ul class="roles-list" aria-label={`${label}, chosen`}>
            {roles.map((role) => (
              <li key={role} class="chip">
                {role}
                <button type="button" class="roles-remove" aria-label={`Remove ${role}`} onClick={() => onChange(roles.filter((one) => one !== role))}>×</button>
              </li>
            ))}
          </ul>
        )}
        <input
          id={id}
          type="text"
          value={typed}
          list={`${id}-known`}
          autocomplete="off"
          placeholder={roles.length === 0 ? "such as editor" : "another one"}
          aria-describedby={hint === undefined ? undefined : `${id}-hint`}
          onInput={(event) => (event.currentTarget.value.includes(",") ? add(event.currentTarget.value) : setTyped(event.currentTarget.value))}
          onKeyDown={press}
          onBlur={() => add(typed)}
        />
        <datalist id={`${id}-known`}>
          {known.filter((one) => !roles.includes(one)).map((one) => <option key={one} value={one} />)}
        </datalist>
      </div>
      {hint !== undefined && <p id={`${id}-hint`} class="soft">{hint}</p>}
    </div>
  );
}
