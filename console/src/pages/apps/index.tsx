/** The page Apps: all of them, or the work on one. */

import { useOwner } from "../../api/owner.js";
import type { PageProps } from "../../shell/pageProps.js";
import { AppList } from "./AppList.js";
import { readPlace } from "./places.js";
import { Workbench } from "./Workbench.js";

export default function AppsPage({ rest, hash }: PageProps) {
  const owner = useOwner();
  const id = readPlace(rest);
  if (id === null) return <AppList owner={owner} />;
  return <Workbench key={JSON.stringify([owner, id])} owner={owner} id={id} hash={hash} />;
}
