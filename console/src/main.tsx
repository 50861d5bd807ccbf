/** The entry point: find the current login, and draw the page. */

import { render } from "preact";
import { resume } from "./api/session.js";
import { Shell } from "./shell/Shell.js";

const root = document.getElementById("console");
if (root !== null) {
  render(<Shell />, root);
  void resume();
}
