/** What a query costs: its commands in their order, and how each part finds its documents. */

import type { ComponentChildren } from "preact";
import { type Command, type Fetch, type Plan, sumCommands } from "../../api/plan.js";
import { CopyButton, Notice } from "../../parts/basic.js";
import { Errors } from "./Errors.js";
import { countOf, describeCount, describeMs } from "./figures.js";

interface PlanViewProps {
  plan: Plan;
  onPlace: (line: number, column: number) => void;
}

export function PlanView({ plan, onPlace }: PlanViewProps) {
  const scans = plan.fetches.filter(needsIndex);
  return (
    <div class="plan">
      <Summary plan={plan} />
      {plan.wouldBeRefused && (
        <Notice kind="warning" title="The server rejects this query">
          {plan.because !== undefined && <p>{plan.because}</p>}
          Ask for less: smaller limits, fewer lists inside one another.
        </Notice>
      )}
      <Errors errors={plan.errors} onPlace={onPlace} />
      {scans.map((fetch, index) => <Scan key={index} fetch={fetch} />)}
      {plan.commands && plan.commands.length > 0 && <Commands commands={plan.commands} />}
      <Fetches fetches={plan.fetches} />
      <Freshness plan={plan} />
      {plan.plan !== undefined && (
        <details class="plan-text">
          <summary>The plan as text</summary>
          <pre tabIndex={0}>{plan.plan}</pre>
        </details>
      )}
    </div>
  );
}

/** Which changes make the answer outdated, for the cache and for live queries. */
function Freshness({ plan: { dependsOn, notTrackable } }: { plan: Plan }) {
  if (notTrackable !== undefined) return <p class="soft">Neither cached nor live: {notTrackable}.</p>;
  if (dependsOn === undefined || dependsOn.length === 0) return null;
  return (
    <section aria-label="Depends on">
      <h3>Depends on</h3>
      <ul>{dependsOn.map((one) => <li key={one}>{one}</li>)}</ul>
    </section>
  );
}

function needsIndex(fetch: Fetch): boolean {
  return fetch.createIndex !== undefined || fetch.advice !== undefined;
}

function Summary({ plan: { commands, documents, estimatedDocuments, limits, fetches } }: { plan: Plan }) {
  const estimate = estimatedDocuments.byCounts ?? estimatedDocuments.byLimits;
  return (
    <dl class="plan-summary">
      {commands && <Figure name="Time in the database" value={describeMs(sumCommands(commands).busyMs)} />}
      {commands && <Figure name="Commands" value={describeCount(commands.length)} />}
      {!commands && <Figure name="Fetches" value={describeCount(fetches.length)} />}
      {documents !== undefined && <Figure name="Documents of the answer" value={describeCount(documents)} of={limits?.fetchedDocuments} />}
      <Figure name="Estimated at most" value={describeCount(estimate)} of={limits?.estimatedDocuments} />
    </dl>
  );
}

function Figure({ name, value, of }: { name: string; value: string; of?: number | undefined }) {
  return (
    <div class="plan-figure">
      <dt>{name}</dt>
      <dd>{value}{of !== undefined && <span class="soft"> of {describeCount(of)} allowed</span>}</dd>
    </div>
  );
}

function Scan({ fetch: { field, collection, access, examined, sortsInMemory, createIndex, advice } }: { fetch: Fetch }) {
  const where = collection === undefined ? "a collection" : <code>{collection}</code>;
  const howMany = typeof examined === "number" ? ` (${countOf(examined, "document")})` : "";
  return (
    <Notice kind="warning" title={access === "scan" ? `${field} scans` : `${field} sorts in memory`}>
      <p>
        {access === "scan" ? <>No index helps: the database scans {where}{howMany}.</> : <>No index gives the order of {where}.</>}
        {access === "scan" && sortsInMemory && " It then sorts the result in memory."}
      </p>
      {createIndex !== undefined ? (
        <div class="plan-index">
          <pre tabIndex={0}>{createIndex}</pre>
          <CopyButton text={createIndex} label="Copy createIndex" />
        </div>
      ) : <p class="soft">{advice}</p>}
    </Notice>
  );
}

/** The commands on a line of time that begins with the execution. */
function Commands({ commands }: { commands: readonly Command[] }) {
  const totals = sumCommands(commands);
  const end = Math.max(0.001, ...commands.map(({ startedMs, ms }) => startedMs + ms));
  return (
    <section aria-label="Commands">
      <h3>Commands, in their order</h3>
      <Grid label="Commands" heads={["Field", "Time line", "Took", "Parents", "Documents", "At"]} numbers={[2, 3, 4, 5]}>
        {commands.map(({ field, kind, collection, parents, documents, startedMs, ms }, index) => (
          <tr key={index}>
            <FieldCell field={field} below={`${kind} ${collection}`} />
            <td class="plan-line"><Bar from={startedMs / end} share={ms / end} /></td>
            <td class="number">{describeMs(ms)}</td>
            <td class="number">{describeCount(parents)}</td>
            <td class="number">{describeCount(documents)}</td>
            <td class="number">{describeMs(startedMs)}</td>
          </tr>
        ))}
        <tr class="plan-total">
          <th scope="row">All commands</th>
          <td />
          <td class="number">{describeMs(totals.tookMs)}</td>
          <td />
          <td class="number">{describeCount(totals.documents)}</td>
          <td />
        </tr>
      </Grid>
      {totals.tookMs - totals.busyMs >= 0.1 && <p class="soft">Some ran at the same time: together they kept the database busy for {describeMs(totals.busyMs)}.</p>}
    </section>
  );
}

/** The numbers next to it show the same. */
function Bar({ from, share }: { from: number; share: number }) {
  const width = Math.max(share * 100, 0.8);
  return (
    <svg class="plan-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="plan-bar-all" x="0" y="4.5" width="100" height="1" />
      <rect class="plan-bar-part" x={Math.min(from * 100, 100 - width)} y="1" width={width} height="8" />
    </svg>
  );
}

const badges = { index: "by index", scan: "scan", unknown: "not known" };

function Fetches({ fetches }: { fetches: readonly Fetch[] }) {
  if (fetches.length === 0) return <p class="soft">This query needs no data from the database.</p>;
  const isTold = fetches.some((one) => one.collection !== undefined);
  const heads = ["Field", "Found", ...(isTold ? ["In it"] : []), "At most"];
  return (
    <section aria-label="Access to the database">
      <h3>How documents are found</h3>
      <Grid label="How documents are found" heads={heads} numbers={isTold ? [2, 3] : [2]}>
        {fetches.map((fetch, index) => (
          <tr key={index}>
            <FieldCell field={fetch.field} below={fetch.collection ?? ""} />
            <td class="plan-found"><Access fetch={fetch} /></td>
            {isTold && <td class="number">{describeNumber(fetch.documents)}</td>}
            <td class="number">{describeNumber(fetch.limit)}</td>
          </tr>
        ))}
      </Grid>
    </section>
  );
}

function describeNumber(count: number | null | undefined): string {
  return count === null || count === undefined ? "" : describeCount(count);
}

function Access({ fetch: { access, way, indexes = [], sortsInMemory = false } }: { fetch: Fetch }) {
  return (
    <>
      <span class={`plan-access plan-access-${access}`}>{badges[access] ?? access}</span>
      {indexes.map((one) => <code key={one} class="plan-index-name">{one}</code>)}
      <div class="soft plan-below">{way}</div>
      {sortsInMemory && <div class="plan-sorts">sorts in memory</div>}
    </>
  );
}

/** The field, and below it what it is in the database. */
function FieldCell({ field, below }: { field: string; below: string }) {
  return (
    <th scope="row">
      <code>{field}</code>
      {below && <div class="soft plan-below">{below}</div>}
    </th>
  );
}

interface GridProps {
  label: string;
  heads: readonly string[];
  /** The columns with numbers. */
  numbers: readonly number[];
  children: ComponentChildren;
}

function Grid({ label, heads, numbers, children }: GridProps) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="table">
        <thead>
          <tr>{heads.map((head, index) => <th key={head} scope="col" class={numbers.includes(index) ? "number" : undefined}>{head}</th>)}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
