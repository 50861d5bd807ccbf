/** Which app is asked. */

import { useId } from "preact/hooks";
import type { VisibleApp } from "../../api/graphql.js";

interface AppChoiceProps {
  app: string;
  apps: readonly VisibleApp[];
  onApp: (app: string) => void;
}

export function AppChoice({ app, apps, onApp }: AppChoiceProps) {
  const id = useId();
  const isListed = apps.some((one) => one.app === app);
  const description = apps.find((one) => one.app === app)?.description;
  return (
    <div class="ask-app" title={description}>
      <label class="soft" for={id}>App</label>
      <select id={id} class="input" value={app} onChange={(event) => onApp(event.currentTarget.value)}>
        {!isListed && <option value={app}>{app}</option>}
        {apps.map((one) => <option key={one.app} value={one.app}>{one.app}</option>)}
      </select>
    </div>
  );
}
