/** A new app: its name, and then the work begins. */

import { useState } from "preact/hooks";
import { idOf } from "../../api/apps.js";
import { appPath } from "../../api/graphql.js";
import { useRights } from "../../api/rights.js";
import { inferPath } from "../../api/infer.js";
import { Button, Dialog, Field, Notice } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { addressOf } from "./places.js";

interface NewAppProps {
  taken: readonly string[];
  onClose: () => void;
}

export function NewAppDialog({ taken, onClose }: NewAppProps) {
  const [name, setName] = useState("");
  const [isTried, setTried] = useState(false);
  const [isFromData, setFromData] = useState(false);
  const mayInfer = useRights([inferPath]).may("POST", inferPath);
  const wanted = name.trim();
  const mistake = findMistake(wanted, taken);
  const begin = (event: Event) => {
    event.preventDefault();
    setTried(true);
    if (mistake !== null) return;
    go(`${addressOf(idOf(wanted))}#${isFromData ? "collections" : "new"}`);
  };
  return (
    <Dialog title="New app" onClose={onClose}>
      <form onSubmit={begin}>
        <Field label="Name" value={name} onInput={setName} hint={`It is served at ${appPath(wanted || "name")}, unless its descriptor has another address.`} />
        {mayInfer && (
          <div class="new-app-ways" role="group" aria-label="Start with">
            <Button aria-pressed={!isFromData} onClick={() => setFromData(false)}>A small example</Button>
            <Button aria-pressed={isFromData} onClick={() => setFromData(true)}>My collections</Button>
          </div>
        )}
        {isTried && mistake !== null && <Notice kind="error">{mistake}</Notice>}
        <p class="soft">Nothing is stored before you save it.</p>
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">Begin</Button>
        </div>
      </form>
    </Dialog>
  );
}

function findMistake(name: string, taken: readonly string[]): string | null {
  if (name === "") return "An app needs a name.";
  if (name.includes("/")) return "A name has no slash; `uri` in the descriptor can give the app an address with slashes.";
  if (name === "." || name === "..") return "This name cannot be part of an address.";
  return taken.includes(name) ? "An app with this name already exists." : null;
}
