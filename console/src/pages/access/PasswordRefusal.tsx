/** Why a password, or a user with it, was not stored, with what the server advises. */

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
