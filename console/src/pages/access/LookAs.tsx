/** Look as somebody else: the page Ask then shows the schema and the answers that they would get. */

import { useState } from "preact/hooks";
import { lookAs, useLooking } from "../../api/looking.js";
import { Button } from "../../parts/basic.js";
import { LookingBanner } from "../../parts/LookingBanner.js";
import { address, go } from "../../shell/router.js";
import { WhomField, asOf, isComplete, nobodyChosen } from "./Whom.js";

export function LookAs() {
  const looking = useLooking();
  const [chosen, setChosen] = useState(nobodyChosen);
  const begin = (event: Event) => {
    event.preventDefault();
    lookAs(asOf(chosen));
    go(address("ask"));
  };
  return (
    <div class="access-look">
      {looking !== null && <LookingBanner as={looking} />}
      <form class="access-form" onSubmit={begin}>
        <p>The page Ask then shows an app as they see it: their fields, their rows, their plan, or why they are refused. You stay logged in as yourself, and nothing of theirs is touched.</p>
        <WhomField label="Look as" chosen={chosen} onChange={setChosen} />
        <div class="data-actions"><Button kind="primary" type="submit" disabled={!isComplete(chosen)}>Open Ask as them</Button></div>
      </form>
    </div>
  );
}
