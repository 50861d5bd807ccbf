/** The variables of a stream, and the value by which it chooses among the events. */

import { useEffect, useState } from "preact/hooks";
import type { Segments } from "../../api/data.js";
import type { StreamInfo, StreamValues } from "../../api/streams.js";
import { Button, Field } from "../../parts/basic.js";
import { go } from "../../shell/router.js";
import { addressOf } from "./places.js";

interface ValuesFormProps {
  segments: Segments;
  values: StreamValues;
  info: StreamInfo | null;
}

export function ValuesForm({ segments, values, info }: ValuesFormProps) {
  const [variables, setVariables] = useState(values.variables);
  const [chosen, setChosen] = useState(values.condition?.[1] ?? "");
  useEffect(() => setVariables(values.variables), [values.variables]);
  const name = info?.condition ?? values.condition?.[0] ?? null;
  const takesVariables = info === null || info.variables.length > 0 || values.variables !== "";
  if (!takesVariables && name === null) return null;
  const apply = (event: Event) => {
    event.preventDefault();
    go(addressOf(segments, { variables, condition: name === null ? null : [name, chosen] }));
  };
  return (
    <form class="live-values" onSubmit={apply}>
      {takesVariables && <Field label="Variables" hint={tellVariables(info)} value={variables} onInput={setVariables} autocomplete="off" placeholder={example(info)} />}
      {name !== null && <Field label={name} hint="only events with this text; empty: all" value={chosen} onInput={setChosen} autocomplete="off" />}
      <Button type="submit">Open with these</Button>
    </form>
  );
}

function tellVariables(info: StreamInfo | null): string {
  if (info === null) return "JSON, where the stream has variables";
  const named = info.variables.map(({ name, isRequired }) => (isRequired ? name : `${name} (optional)`));
  return named.length === 0 ? "This stream has no variables" : `JSON with ${named.join(", ")}`;
}

function example(info: StreamInfo | null): string {
  return `{${JSON.stringify(info?.variables[0]?.name ?? "room")}: "blue"}`;
}
