/** Why a password, or a user with it, is not stored: before it is sent, and what the server advises. */

import { Refusal } from "../data/Refusal.js";
import { adviceIn } from "./words.js";

export function PasswordRefusal({ error, title, said }: { error: unknown; title: string; said: Readonly<Record<number, string>> }) {
  const advice = adviceIn(error);
  return (
    <>
      <Refusal error={error} title={title} said={said} />
      {advice.length > 0 && <ul class="access-advice">{advice.map((one) => <li key={one}>{one}</li>)}</ul>}
    </>
  );
}

/** A password that is guessed immediately is stored only on request. */
export function WeakPassword({ isAccepted, onChange }: { isAccepted: boolean; onChange: (isAccepted: boolean) => void }) {
  return (
    <label class="access-advice">
      <input type="checkbox" checked={isAccepted} onChange={(event) => onChange(event.currentTarget.checked)} /> This password is guessed immediately. Use it anyway.
    </label>
  );
}
