/** Parts of the documentation that appear in several places. */

import { type GraphQLArgument, type GraphQLType, astFromValue, getNamedType, print } from "graphql";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../parts/basic.js";
import { Markdown, MarkdownLine } from "../../parts/Markdown.js";
import type { Spot } from "./docsModel.js";

const longestShort = 160; // characters
const portion = 200; // types or fields in one portion

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

/** A list that shows its items in portions. */
export function Portions<Item>({ items, render, most = portion }: { items: readonly Item[]; render: (item: Item) => ComponentChildren; most?: number }) {
  const [shown, setShown] = useState(most);
  return (
    <>
      <ul class="docs-list">{items.slice(0, shown).map(render)}</ul>
      {items.length > shown && <Button kind="quiet" onClick={() => setShown(shown + most)}>Show more of {items.length}</Button>}
    </>
  );
}

/** `[Post!]!` with the name as a link. */
export function TypeLink({ type, onOpen }: { type: GraphQLType; onOpen: (spot: Spot) => void }) {
  const { name } = getNamedType(type);
  const [before = "", after = ""] = String(type).split(name);
  return (
    <span class="docs-of">
      {before}
      <button type="button" class="docs-link docs-type" onClick={() => onOpen({ type: name })}>{name}</button>
      {after}
    </span>
  );
}
