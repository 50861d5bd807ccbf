/** What saving would change: for clients, and line by line. */

import type { Comparison } from "../../api/tools.js";
import { Empty, Loading } from "../../parts/basic.js";
import type { Check } from "./useCheck.js";

const kinds: Readonly<Record<string, string>> = { "+": "diff-more", "-": "diff-less", "@": "diff-place" };

export function Changes({ check: { checked, isRunning }, isChanged }: { check: Check; isChanged: boolean }) {
  if (checked === null) return isRunning ? <Loading what="Comparing" /> : <Empty title="Not compared"><p>The definition could not be checked.</p></Empty>;
  const { change, effects = [], diff } = checked;
  if (change === "new") return <Empty title="All of it is new"><p>Nothing is stored under this name yet.</p></Empty>;
  if (change === undefined) return <Empty title="Not compared"><p>The stored definition cannot be read, or you may not read all definitions.</p></Empty>;
  if (change === "same") {
    return <Empty title="Nothing differs"><p>{isChanged ? "The texts differ from what is stored only in their layout and comments." : "This is what is stored."}</p></Empty>;
  }
  return <Differences effects={effects} diff={diff} />;
}

/** The effects on clients, and the lines. */
export function Differences({ effects = [], diff }: Pick<Comparison, "effects"> & { diff: string | undefined }) {
  return (
    <div class="changes">
      {effects.length > 0 ? (
        <section aria-label="What clients notice">
          <h2>What clients notice</h2>
          <ul class="effects">
            {effects.map(({ severity, what }, index) => (
              <li key={index}><span class={`effect effect-${severity}`}>{severity}</span>{what}</li>
            ))}
          </ul>
        </section>
      ) : (
        <p>Clients see the same schema. Changed mappings can still change the answers: check the lines below.</p>
      )}
      {diff !== undefined && (
        <section aria-label="Lines that differ">
          <h2>Lines that differ</h2>
          <pre class="diff" tabIndex={0} aria-label="Lines that differ">
            {diff.split("\n").map((line, index) => <span key={index} class={kindOf(line)}>{line}{"\n"}</span>)}
          </pre>
        </section>
      )}
    </div>
  );
}

function kindOf(line: string): string {
  if (line.startsWith("---") || line.startsWith("+++")) return "diff-file";
  return kinds[line[0] ?? ""] ?? "";
}
