/** View apps as another caller: the page Ask then shows their schema and their answers. */

import { useState } from "preact/hooks";
import { lookAs, useLooking } from "../../api/looking.js";
import { Button } from "../../parts/basic.js";
import { LookingBanner } from "../../parts/LookingBanner.js";
import { address, go } from "../../shell/router.js";
import { WhomField, asOf, isComplete, noneChosen } from "./Whom.js";

export function LookAs() {
  const looking = useLooking();
  const [chosen, setChosen] = useState(noneChosen);
  const begin = (event: Event) => {
    event.preventDefault();
    lookAs(asOf(chosen));
    go(address("ask"));
  };
  return (
    <div class="access-look">
      {looking !== null && <LookingBanner as={looking} />}
      <form class="access-form" onSubmit={begin}>
        <p>The page Ask then shows an app as this caller sees it: fields, rows and plan, or why the server rejects the request. You stay logged in as yourself. No user is changed.</p>
        <WhomField label="View as" chosen={chosen} onChange={setChosen} />
        <div class="data-actions"><Button kind="primary" type="submit" disabled={!isComplete(chosen)}>Open Ask as this caller</Button></div>
      </form>
    </div>
  );
}
