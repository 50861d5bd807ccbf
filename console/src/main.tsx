/** The beginning: find out who is there, and draw. */

import { render } from "preact";
import { resume } from "./api/session.js";
import { Shell } from "./shell/Shell.js";

const root = document.getElementById("console");
if (root !== null) {
  render(<Shell />, root);
  void resume();
}
