/** The options and events of an editor; this file loads nothing of CodeMirror. */

import type { GraphQLSchema } from "graphql";

/** `shell`: JSON as lenient as the server reads it, with the notation of the shell of MongoDB. */
export type Language = "graphql" | "json" | "shell" | "yaml" | "text";

/** A finding at a position; lines and columns count from 1, as the server counts them. */
export interface Finding {
  readonly line: number;
  readonly column?: number;
  readonly endLine?: number;
  readonly endColumn?: number;
  readonly severity: "error" | "warning" | "info";
  readonly message: string;
}

/** A key such as `Mod-Enter` (Ctrl or Cmd) and what it does; true: the key does nothing else. */
export interface Key {
  readonly key: string;
  readonly run: () => boolean;
}

/** The completions at the cursor, which replace the text from `from` on. */
export interface Completions {
  readonly from: number;
  readonly options: readonly { readonly label: string; readonly detail?: string; readonly apply?: string }[];
}

export interface EditorOptions {
  readonly label: string;
  readonly language: Language;
  readonly value: string;
  readonly onChange?: (value: string) => void;
  readonly findings?: readonly Finding[];
  readonly keys?: readonly Key[];
  readonly isReadOnly?: boolean;
  /** The completions of this text, which ends at the cursor. */
  readonly complete?: (before: string) => Completions | null;
  /** For GraphQL: completion, validation and documentation come from it. */
  readonly schema?: GraphQLSchema;
  /** Mod-click or Mod-I on a name of a query: a field of a type, or the type alone. */
  readonly onShowDocs?: (field: string | undefined, type: string | undefined, parentType: string | undefined) => void;
}

/** What a page can make an editor do. */
export interface EditorControl {
  focus(): void;
  /** Whether the editor has the focus: the page must not change its text then. */
  hasFocus(): boolean;
  /** Go to a position, and mark it. */
  reveal(line: number, column?: number): void;
  /** Replace the selection with a text. */
  insert(text: string): void;
}
