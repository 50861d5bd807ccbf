/** How an app is doing, in a word. */

export type State = "served" | "disabled" | "invalid" | "unsaved" | "new" | "unknown";

const words: Readonly<Record<State, string>> = {
  served: "Served",
  disabled: "Disabled",
  invalid: "Invalid",
  unsaved: "Unsaved changes",
  new: "Not stored yet",
  unknown: "…",
};

export function StateChip({ state, title }: { state: State; title?: string }) {
  return <span class={`apps-state apps-state-${state}`} title={title}>{words[state]}</span>;
}

/** "1 error, 2 warnings". */
export function describeFindings(errors: number, warnings: number): string {
  const counted = [count(errors, "error"), count(warnings, "warning")].filter((text) => text !== "");
  return counted.length === 0 ? "No findings" : counted.join(", ");
}

function count(number: number, noun: string): string {
  return number === 0 ? "" : `${number} ${noun}${number === 1 ? "" : "s"}`;
}
