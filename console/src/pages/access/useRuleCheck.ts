/** What the server finds wrong with a rule while it is being typed. */

import { useState } from "preact/hooks";
import { checkRule } from "../../api/realm.js";
import type { Finding } from "../../api/tools.js";
import type { Finding as Marked } from "../../parts/Editor.js";
import { useCallerEffect } from "../data/useCallerEffect.js";

export interface RuleCheck {
  readonly errors: readonly Finding[];
  /** null: it was checked. */
  readonly failed: unknown;
  /** What the last answer is about. */
  readonly about: string;
}

const delay = 300; // ms after the last key

export function useRuleCheck(rule: string): RuleCheck {
  const [check, setCheck] = useState<RuleCheck>({ errors: [], failed: null, about: "" });
  useCallerEffect((signal) => {
    const timer = setTimeout(() => {
      checkRule(rule, signal).then(
        ({ errors }) => setCheck({ errors, failed: null, about: rule }),
        (failed: unknown) => signal.aborted || setCheck((before) => ({ ...before, failed })),
      );
    }, delay);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }, [rule]);
  return check;
}

/** The findings about a part of a rule and what is inside it. */
export function findingsOf({ errors }: RuleCheck, where: string): readonly Finding[] {
  return errors.filter((one) => one.where === where || one.where.startsWith(`${where}.`));
}

/** The findings without a field in the form. */
export function otherFindings({ errors }: RuleCheck, fields: readonly string[]): readonly Finding[] {
  return errors.filter((one) => !fields.some((field) => one.where === field || one.where.startsWith(`${field}.`)));
}

export function markFindings(findings: readonly Finding[]): readonly Marked[] {
  return findings.map(({ line = 1, column = 1, what }) => ({ line, column, severity: "error", message: what }));
}
