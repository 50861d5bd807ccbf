/** The page Live: the list of streams, or the events of one as they arrive. */

import { useOwner } from "../../api/owner.js";
import { isStream } from "../../api/streams.js";
import type { PageProps } from "../../shell/pageProps.js";
import { Choice } from "./Choice.js";
import { readValues } from "./places.js";
import { StreamPage } from "./StreamPage.js";

export default function LivePage({ rest, hash }: PageProps) {
  const owner = useOwner();
  const key = JSON.stringify([owner, rest]);
  if (isStream(rest)) return <StreamPage key={key} owner={owner} segments={rest} values={readValues(hash)} />;
  return <Choice key={key} owner={owner} collection={rest} />;
}
