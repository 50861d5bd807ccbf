/** Shows the caller as whom the administrator views the app, and ends it. */

import { describeAs, stopLooking } from "../api/looking.js";
import type { As } from "../api/tools.js";
import { Button } from "./basic.js";

export function LookingBanner({ as }: { as: As }) {
  return (
    <div class="looking" role="status">
      <span>You view this as <strong>{describeAs(as)}</strong>.</span>
      <Button onClick={stopLooking}>View as yourself again</Button>
    </div>
  );
}
