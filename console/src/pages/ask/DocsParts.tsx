/** Parts of the documentation that appear in several places. */

import { type GraphQLArgument, astFromValue, print } from "graphql";
import type { ComponentChildren } from "preact";
import { Markdown, MarkdownLine } from "../../parts/Markdown.js";

const longestShort = 160; // characters

/** What the author says, in Markdown. */
export function Description({ text, isShort = false }: { text: string | null | undefined; isShort?: boolean }) {
  if (!text) return null;
  if (!isShort) return <div class="docs-description"><Markdown text={text} /></div>;
  return <p class="docs-description"><MarkdownLine text={text.length > longestShort ? `${text.slice(0, longestShort)}…` : text} /></p>;
}

export function Deprecation({ reason }: { reason: string | null | undefined }) {
  if (reason === null || reason === undefined) return null;
  return <p class="docs-deprecated">Deprecated: {reason}</p>;
}

export function Argument({ argument, children }: { argument: GraphQLArgument; children: ComponentChildren }) {
  const { name, type, defaultValue, description, deprecationReason } = argument;
  const node = defaultValue === undefined ? null : astFromValue(defaultValue, type);
  return (
    <li class="docs-entry">
      <div class="docs-signature">
        <code>{name}</code>
        <span class="soft">: </span>
        {children}
        {node && <span class="soft"> = {print(node)}</span>}
      </div>
      <Description text={description} />
      <Deprecation reason={deprecationReason} />
    </li>
  );
}
