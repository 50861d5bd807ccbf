/** Schema and mappings side by side, and the findings about them. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Finding } from "../../api/tools.js";
import { Editor, type EditorControl, type Finding as Mark, type Key } from "../../parts/Editor.js";
import { Splitter } from "../../parts/Splitter.js";
import { Tabs } from "../../parts/Tabs.js";
import { Findings, partOf } from "./Findings.js";
import { locateField } from "./locateField.js";
import type { Check } from "./useCheck.js";
import type { Others, Part, Texts } from "./work.js";

interface DefinitionProps {
  texts: Texts;
  others: Others;
  check: Check;
  keys: readonly Key[];
  /** The field to show; each object once. */
  shownField: { readonly field: string } | null;
  onChange: (part: Part, text: string) => void;
}

type Second = "mappings" | "descriptor";

export function Definition({ texts, others, check, keys, shownField, onChange }: DefinitionProps) {
  const [second, setSecond] = useState<Second>("mappings");
  const schema = useRef<EditorControl | null>(null);
  const mappings = useRef<EditorControl | null>(null);
  const descriptor = useRef<EditorControl | null>(null);
  const marks = useMarks(check);
  const jump = (finding: Finding) => {
    const part = partOf(finding);
    if (part === null) return;
    const control = { schema, mappings, descriptor }[part];
    const reveal = () => control.current?.reveal(finding.line ?? 1, finding.column ?? 1);
    if (part === "schema" || part === second) return reveal();
    setSecond(part);
    requestAnimationFrame(reveal); // the editor has a size only after its tab is shown
  };
  useEffect(() => {
    const place = shownField === null ? null : locateField(texts.schema, shownField.field);
    if (place !== null) requestAnimationFrame(() => schema.current?.reveal(place.line, place.column));
  }, [shownField]);
  const count = (part: Second) => (marks[part].length === 0 ? "" : ` (${marks[part].length})`);
  return (
    <div class="definition">
      <Splitter
        label="Share of the schema"
        first={
          <section class="apps-pane" aria-label="Schema">
            <h2 class="apps-pane-title">Schema</h2>
            <Editor label="Schema" language="graphql" value={texts.schema} findings={marks.schema} keys={keys} control={schema} onChange={(text) => onChange("schema", text)} />
          </section>
        }
        second={
          <Tabs
            label="Mappings and descriptor"
            tabs={[{ key: "mappings", label: `Mappings${count("mappings")}` }, { key: "descriptor", label: `Descriptor${count("descriptor")}` }]}
            selected={second}
            onSelect={setSecond}
            extra={<span class="soft apps-hint">YAML or JSON; comments are not stored</span>}
          >
            <div class="apps-part" hidden={second !== "mappings"}>
              <Editor label="Mappings" language="yaml" value={texts.mappings} findings={marks.mappings} keys={keys} control={mappings} onChange={(text) => onChange("mappings", text)} />
            </div>
            <div class="apps-part" hidden={second !== "descriptor"}>
              <Editor label="Descriptor" language="yaml" value={texts.descriptor} findings={marks.descriptor} keys={keys} control={descriptor} onChange={(text) => onChange("descriptor", text)} />
            </div>
          </Tabs>
        }
      />
      {others.length > 0 && <p class="soft apps-others">Also stored with it, and kept as it is: {others.map(([name]) => name).join(", ")}</p>}
      <Findings check={check} onJump={jump} />
    </div>
  );
}

function useMarks({ checked }: Check): Readonly<Record<Part, readonly Mark[]>> {
  return useMemo(() => {
    const marks: Record<Part, Mark[]> = { schema: [], mappings: [], descriptor: [] };
    for (const severity of ["error", "warning"] as const) {
      for (const one of (severity === "error" ? checked?.errors : checked?.warnings) ?? []) {
        const part = partOf(one);
        if (part === null || one.line === undefined) continue;
        const message = !one.hint ? one.what : `${one.what}\n${one.hint}`;
        marks[part].push({ line: one.line, column: one.column ?? 1, severity, message });
      }
    }
    return marks;
  }, [checked]);
}
