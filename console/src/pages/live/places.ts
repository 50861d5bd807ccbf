/** The address of the page: the path of a stream or of a collection, and after `#` the values for the stream. */

import type { Segments } from "../../api/data.js";
import type { StreamValues } from "../../api/streams.js";
import { address } from "../../shell/router.js";

const own = "avars";

export const noValues: StreamValues = { variables: "", condition: null };

export function readValues(hash: string): StreamValues {
  const told = [...new URLSearchParams(hash)];
  return {
    variables: told.find(([name]) => name === own)?.[1] ?? "",
    condition: told.find(([name]) => name !== own) ?? null,
  };
}

export function addressOf(segments: Segments, { variables, condition }: StreamValues = noValues): string {
  const told = new URLSearchParams();
  if (variables.trim() !== "") told.set(own, variables);
  if (condition !== null && condition[1] !== "") told.set(...(condition as [string, string]));
  const hash = told.toString();
  return address("live", ...segments) + (hash === "" ? "" : `#${hash}`);
}
