/** An editor of CodeMirror in a shadow root, where its styles need no exception from the page's policy. */

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from "@codemirror/language";
import { type Diagnostic, forceLinting, lintGutter, lintKeymap, linter } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState, type Extension, Prec, StateEffect, type Text } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  type ViewUpdate,
} from "@codemirror/view";
import { graphql, updateSchema } from "cm6-graphql";
import type { GraphQLSchema } from "graphql";
import { shell } from "./shell.js";
import { compareTexts } from "./compareTexts.js";
import { toggleTab } from "./tabKey.js";
import { theme } from "./theme.js";
import type { EditorControl, EditorOptions, Finding, Language } from "./types.js";

/** The current options: what is read later, such as keys, is always that of the last drawing. */
export interface Current {
  options: EditorOptions;
  /** The user wants Tab to indent, or to leave the editor again. */
  onToggleTab: () => void;
}

/** Marks a change that came from the page, which needs no notification of it. */
const fromPage = Annotation.define<true>();

/** Findings arrive at any time; without this effect the linter reads them only after a key press. */
const newFindings = StateEffect.define();

function hasNewFindings({ transactions }: ViewUpdate): boolean {
  return transactions.some((one) => one.effects.some((effect) => effect.is(newFindings)));
}

export class CodeEditor implements EditorControl {
  private readonly view: EditorView;
  private shown: EditorOptions;
  /** Texts that were sent to the page and have not come back: an old text that comes back late is not a change by the page. */
  private readonly told = new Set<string>();

  constructor(host: HTMLElement, private readonly current: Current) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    root.replaceChildren();
    this.shown = current.options;
    const { value } = current.options;
    const listener = EditorView.updateListener.of((update) => this.tell(update));
    const state = EditorState.create({ doc: value, extensions: [extend(current), listener] });
    this.view = new EditorView({ root, parent: root, state });
    this.view.setTabFocusMode(true); // Tab leaves the editor; a key makes it indent
  }

  /** Apply changes from outside. */
  update(): void {
    const before = this.shown;
    const { value, findings, schema } = this.current.options;
    this.shown = this.current.options;
    if (value !== before.value) this.take(value);
    if (schema !== before.schema) updateSchema(this.view, schema);
    if (findings !== before.findings) this.view.dispatch({ effects: newFindings.of(null) });
    if (schema !== before.schema) forceLinting(this.view);
  }

  private take(value: string): void {
    const text = this.view.state.doc.toString();
    const isNow = value === text;
    if (!isNow && this.told.has(value)) return;
    this.told.clear();
    if (!isNow) this.view.dispatch({ changes: compareTexts(text, value), annotations: fromPage.of(true) });
  }

  private tell({ docChanged, transactions, state }: ViewUpdate): void {
    if (!docChanged || transactions.every((one) => one.annotation(fromPage))) return;
    const text = state.doc.toString();
    this.told.add(text);
    this.current.options.onChange?.(text);
  }

  focus(): void {
    this.view.focus();
  }

  hasFocus(): boolean {
    return this.view.root.activeElement === this.view.contentDOM;
  }

  reveal(line: number, column = 1): void {
    const anchor = offsetOf(this.view.state.doc, line, column);
    this.view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    this.view.focus();
  }

  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.view.focus();
  }

  setTabIndents(indents: boolean): void {
    this.view.setTabFocusMode(!indents);
  }

  destroy(): void {
    this.view.destroy();
  }
}

function extend(current: Current): Extension {
  const { label, language, schema, isReadOnly = false } = current.options;
  const own = { key: "", any: (_: EditorView, event: KeyboardEvent) => pressOwn(current, event) };
  // The same function each time: by it the editor knows where an answer comes from.
  const completions = [{ autocomplete: (context: CompletionContext) => completeOwn(current, context) }];
  // What scrolls has to have something in it that the keyboard can reach, by an attribute.
  const describe = { "aria-label": label, "aria-multiline": "true", "aria-keyshortcuts": toggleTab.spelled, tabindex: "0" };
  return [
    Prec.highest(keymap.of([own])),
    language === "shell" ? [] : [lineNumbers(), highlightActiveLineGutter(), foldGutter()], // a filter is short
    highlightSpecialChars(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    lintGutter({ markerFilter: spareEmpty(current) }),
    linter(null, { markerFilter: spareEmpty(current) }),
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap]),
    keymap.of([...foldKeymap, ...completionKeymap, ...lintKeymap, indentWithTab]),
    languageOf(language, schema, current),
    EditorState.languageData.of(() => completions),
    linter((view) => (current.options.findings ?? []).map((one) => asDiagnostic(view.state.doc, one)), { delay: 0, needsRefresh: hasNewFindings }),
    EditorState.readOnly.of(isReadOnly),
    EditorView.contentAttributes.of(isReadOnly ? { ...describe, "aria-readonly": "true" } : describe),
    theme,
  ];
}

/** An empty text has no errors, unless the page itself reports one. */
function spareEmpty(current: Current) {
  return (found: readonly Diagnostic[], { doc }: EditorState): Diagnostic[] => {
    const isBlank = doc.length < 1000 && doc.toString().trim() === "";
    return isBlank && !current.options.findings?.length ? [] : [...found];
  };
}

function languageOf(language: Language, schema: GraphQLSchema | undefined, current: Current): Extension {
  switch (language) {
    case "graphql":
      return graphql(schema, { onShowInDocs: (...names) => current.options.onShowDocs?.(...names) });
    case "json":
      return [json(), linter((view) => (view.state.doc.length === 0 ? [] : jsonParseLinter()(view)))];
    case "shell":
      return shell;
    case "yaml":
      return yaml();
    case "text":
      return [];
  }
}

/** The completions of the page: at the end of a word, or on request. */
function completeOwn(current: Current, { state, pos, explicit }: CompletionContext): CompletionResult | null {
  const found = current.options.complete?.(state.sliceDoc(0, pos)) ?? null;
  if (found === null || (found.from === pos && !explicit)) return null;
  return { from: found.from, to: endOfWord(state.sliceDoc(pos, pos + 1), pos), options: [...found.options] };
}

/** The quote that the editor has closed by itself belongs to what is replaced. */
function endOfWord(next: string, pos: number): number {
  return next === '"' ? pos + 1 : pos;
}

/** The keys of the page come first; the current ones are used. */
function pressOwn(current: Current, event: KeyboardEvent): boolean {
  if (toggleTab.isPressed(event)) {
    current.onToggleTab();
    return true;
  }
  const name = spellKey(event);
  const found = current.options.keys?.find((one) => one.key === name);
  return found?.run() ?? false;
}

function spellKey({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): string {
  const isMod = ctrlKey || metaKey;
  return `${isMod ? "Mod-" : ""}${altKey ? "Alt-" : ""}${shiftKey ? "Shift-" : ""}${key}`;
}

function asDiagnostic(doc: Text, { line, column, endLine, endColumn, severity, message }: Finding): Diagnostic {
  const from = offsetOf(doc, line, column ?? 1);
  const lineEnd = doc.lineAt(from).to;
  const to = endColumn === undefined && endLine === undefined ? lineEnd : offsetOf(doc, endLine ?? line, endColumn ?? 1);
  return { from, to: Math.max(from, to), severity, message };
}

/** The offset of a line and a column; a position outside of the text is moved into it. */
function offsetOf(doc: Text, line: number, column: number): number {
  const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
  return Math.min(at.from + Math.max(column, 1) - 1, at.to);
}
