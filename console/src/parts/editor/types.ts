/** What an editor is told and tells; nothing of CodeMirror is loaded by it. */

import type { GraphQLSchema } from "graphql";

export type Language = "graphql" | "json" | "yaml" | "text";

/** A finding at a place; lines and columns count from 1, as the server counts them. */
export interface Finding {
  readonly line: number;
  readonly column?: number;
  readonly endLine?: number;
  readonly endColumn?: number;
  readonly severity: "error" | "warning" | "info";
  readonly message: string;
}

/** A key such as `Mod-Enter` (Ctrl or Cmd) and what it does; true: nothing else shall happen. */
export interface Key {
  readonly key: string;
  readonly run: () => boolean;
}

/** What could be typed at the cursor, in the place of what begins at `from`. */
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
  /** What could stand behind this text, which ends at the cursor. */
  readonly complete?: (before: string) => Completions | null;
  /** For GraphQL: completion, validation and documentation come from it. */
  readonly schema?: GraphQLSchema;
  /** Mod-click or Mod-I on a name of a query: a field of a type, or the type alone. */
  readonly onShowDocs?: (field: string | undefined, type: string | undefined, parentType: string | undefined) => void;
}

/** What a page can make an editor do. */
export interface EditorControl {
  focus(): void;
  /** Whether the cursor is in the editor: its text is the user's then. */
  hasFocus(): boolean;
  /** Go to a place, and mark it. */
  reveal(line: number, column?: number): void;
  /** Put a text in the place of what is selected. */
  insert(text: string): void;
}
