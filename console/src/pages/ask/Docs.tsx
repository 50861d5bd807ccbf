/** The documentation of the schema: types and fields to click through, and a search. */

import {
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLNamedType,
  type GraphQLSchema,
  type GraphQLType,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isUnionType,
} from "graphql";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Button, Field } from "../../parts/basic.js";
import { Argument, Deprecation, Description } from "./DocsParts.js";
import { type Spot, kindOf, listTypes, search } from "./docsModel.js";

const portion = 200; // types or fields in one portion

interface DocsProps {
  schema: GraphQLSchema;
  /** The path to what is shown, outermost first; empty: the overview. */
  way: readonly Spot[];
  onGo: (way: readonly Spot[]) => void;
}

export function Docs({ schema, way, onGo }: DocsProps) {
  const [text, setText] = useState("");
  const open = (spot: Spot) => {
    setText("");
    onGo([...way, spot]);
  };
  const spot = way.at(-1);
  return (
    <div class="docs">
      <Field label="Search types and fields" value={text} onInput={setText} />
      {text.trim() ? (
        <Results schema={schema} text={text} onOpen={open} />
      ) : (
        <>
          <Trail way={way} onGo={onGo} />
          {spot === undefined ? <Overview schema={schema} onOpen={open} /> : <Shown schema={schema} spot={spot} onOpen={open} />}
        </>
      )}
    </div>
  );
}

function Trail({ way, onGo }: { way: readonly Spot[]; onGo: (way: readonly Spot[]) => void }) {
  if (way.length === 0) return null;
  const shown = way.slice(-3);
  const before = way.length - shown.length;
  return (
    <nav class="docs-trail" aria-label="Way">
      <Button kind="quiet" onClick={() => onGo([])}>Schema</Button>
      {before > 0 && <span class="soft">…</span>}
      {shown.slice(0, -1).map((spot, index) => (
        <Button key={index} kind="quiet" onClick={() => onGo(way.slice(0, before + index + 1))}>{spot.field ?? spot.type}</Button>
      ))}
    </nav>
  );
}

interface OpenProps {
  onOpen: (spot: Spot) => void;
}

function Results({ schema, text, onOpen }: OpenProps & { schema: GraphQLSchema; text: string }) {
  const { found, hasMore } = useMemo(() => search(schema, text), [schema, text]);
  if (found.length === 0) return <p class="soft" role="status">No type or field has “{text.trim()}” in its name.</p>;
  return (
    <>
      <ul class="docs-list" aria-label="Found">
        {found.map(({ spot, about }) => (
          <li key={`${spot.type}.${spot.field ?? ""}`}>
            <button type="button" class="docs-link" onClick={() => onOpen(spot)}>
              {spot.field === undefined ? spot.type : <><span class="soft">{spot.type}.</span>{spot.field}</>}
            </button>
            <span class="soft docs-about">{about}</span>
          </li>
        ))}
      </ul>
      {hasMore && <p class="soft">There is more: type more of the name.</p>}
    </>
  );
}

function Overview({ schema, onOpen }: OpenProps & { schema: GraphQLSchema }) {
  const types = useMemo(() => listTypes(schema), [schema]);
  const query = schema.getQueryType();
  return (
    <>
      {schema.description && <Description text={schema.description} />}
      {query && (
        <section>
          <h3>Queries</h3>
          <Portions items={Object.values(query.getFields())} render={(field) => <FieldLine key={field.name} type={query} field={field} onOpen={onOpen} />} />
        </section>
      )}
      <section>
        <h3>Types</h3>
        <Portions
          items={types}
          render={(type) => (
            <li key={type.name}>
              <button type="button" class="docs-link docs-type" onClick={() => onOpen({ type: type.name })}>{type.name}</button>
              <span class="soft docs-about">{kindOf(type)}</span>
            </li>
          )}
        />
      </section>
    </>
  );
}

/** A list that shows its items in portions. */
function Portions<Item>({ items, render }: { items: readonly Item[]; render: (item: Item) => ComponentChildren }) {
  const [shown, setShown] = useState(portion);
  return (
    <>
      <ul class="docs-list">{items.slice(0, shown).map(render)}</ul>
      {items.length > shown && (
        <Button kind="quiet" onClick={() => setShown(shown + portion)}>Show more of {items.length}</Button>
      )}
    </>
  );
}

function Shown({ schema, spot, onOpen }: OpenProps & { schema: GraphQLSchema; spot: Spot }) {
  const type = schema.getType(spot.type);
  if (type === undefined) return <p class="soft">The schema no longer has {spot.type}.</p>;
  const field = spot.field === undefined ? undefined : fieldsOf(type)?.[spot.field];
  return field ? <FieldPage type={type} field={field} onOpen={onOpen} /> : <TypePage schema={schema} type={type} onOpen={onOpen} />;
}

type AnyField = GraphQLField<unknown, unknown> | GraphQLInputField;

function fieldsOf(type: GraphQLNamedType): Readonly<Record<string, AnyField>> | undefined {
  return isObjectType(type) || isInterfaceType(type) || isInputObjectType(type) ? type.getFields() : undefined;
}

function TypePage({ schema, type, onOpen }: OpenProps & { schema: GraphQLSchema; type: GraphQLNamedType }) {
  const fields = fieldsOf(type);
  const implemented = isObjectType(type) || isInterfaceType(type) ? type.getInterfaces() : [];
  const possible = isUnionType(type) || isInterfaceType(type) ? schema.getPossibleTypes(type) : [];
  return (
    <>
      <h3 class="docs-title"><span class="soft">{kindOf(type)}</span> {type.name}</h3>
      <Description text={type.description} />
      <Types title="Implements" types={implemented} onOpen={onOpen} />
      {fields && (
        <section>
          <h4>Fields</h4>
          <Portions key={type.name} items={Object.values(fields)} render={(field) => <FieldLine key={field.name} type={type} field={field} onOpen={onOpen} />} />
        </section>
      )}
      <Types title="One of" types={possible} onOpen={onOpen} />
      {isEnumType(type) && (
        <section>
          <h4>Values</h4>
          <Portions
            key={type.name}
            items={type.getValues()}
            render={(value) => (
              <li key={value.name} class="docs-entry">
                <code>{value.name}</code>
                <Description text={value.description} />
                <Deprecation reason={value.deprecationReason} />
              </li>
            )}
          />
        </section>
      )}
    </>
  );
}

function Types({ title, types, onOpen }: OpenProps & { title: string; types: readonly GraphQLNamedType[] }) {
  if (types.length === 0) return null;
  return (
    <section>
      <h4>{title}</h4>
      <Portions items={types} render={(type) => <li key={type.name}><TypeLink type={type} onOpen={onOpen} /></li>} />
    </section>
  );
}

function FieldLine({ type, field, onOpen }: OpenProps & { type: GraphQLNamedType; field: AnyField }) {
  const args = "args" in field ? field.args : [];
  return (
    <li class="docs-entry">
      <div class="docs-signature">
        <button type="button" class="docs-link" onClick={() => onOpen({ type: type.name, field: field.name })}>{field.name}</button>
        {args.length > 0 && <span class="soft">({args.length <= 3 ? args.map((one) => one.name).join(", ") : `${args.length} arguments`})</span>}
        <span class="soft">: </span>
        <TypeLink type={field.type} onOpen={onOpen} />
      </div>
      <Description text={field.description} isShort />
      <Deprecation reason={field.deprecationReason} />
    </li>
  );
}

function FieldPage({ type, field, onOpen }: OpenProps & { type: GraphQLNamedType; field: AnyField }) {
  const args = "args" in field ? field.args : [];
  return (
    <>
      <h3 class="docs-title"><span class="soft">{type.name}.</span>{field.name}</h3>
      <Description text={field.description} />
      <Deprecation reason={field.deprecationReason} />
      <h4>Type</h4>
      <p><TypeLink type={field.type} onOpen={onOpen} /></p>
      {args.length > 0 && (
        <section>
          <h4>Arguments</h4>
          <ul class="docs-list">
            {args.map((one) => (
              <Argument key={one.name} argument={one}><TypeLink type={one.type} onOpen={onOpen} /></Argument>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** `[Post!]!` with the name as a link. */
function TypeLink({ type, onOpen }: OpenProps & { type: GraphQLType }) {
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
