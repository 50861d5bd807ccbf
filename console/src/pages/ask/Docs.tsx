/** The documentation of the schema: types and fields to click through, and a search. */

import {
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLNamedType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isUnionType,
} from "graphql";
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { Button, Field } from "../../parts/basic.js";
import { type Path, findPlace } from "./builder.js";
import { FieldLine, FieldSelection } from "./DocsFields.js";
import { Argument, Deprecation, Description, Portions, TypeLink } from "./DocsParts.js";
import { type Spot, kindOf, listTypes, search } from "./docsModel.js";
import type { Builder } from "./queryBuilder.js";

interface DocsProps {
  schema: GraphQLSchema;
  /** The path to what is shown, outermost first; empty: the overview. */
  way: readonly Spot[];
  onGo: (way: readonly Spot[]) => void;
  builder: Builder;
}

export function Docs({ schema, way, onGo, builder }: DocsProps) {
  const [text, setText] = useState("");
  const latest = useRef<(spot: Spot) => void>(() => undefined);
  latest.current = (spot) => {
    setText("");
    onGo([...way, spot]);
  };
  const open = useCallback((spot: Spot) => latest.current(spot), []); // the same function: lines need not be drawn again
  const spot = way.at(-1);
  return (
    <div class="docs">
      <Field label="Search types and fields" value={text} onInput={setText} />
      {text.trim() ? (
        <Results schema={schema} text={text} onOpen={open} />
      ) : (
        <>
          <Trail way={way} onGo={onGo} />
          {spot === undefined ? <Overview schema={schema} builder={builder} onOpen={open} /> : <Shown schema={schema} spot={spot} way={way} builder={builder} onOpen={open} />}
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

function Overview({ schema, builder, onOpen }: OpenProps & { schema: GraphQLSchema; builder: Builder }) {
  const types = useMemo(() => listTypes(schema), [schema]);
  const query = schema.getQueryType();
  // No key changes these lines.
  const shownTypes = useMemo(
    () => (
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
    ),
    [types, onOpen],
  );
  return (
    <>
      {schema.description && <Description text={schema.description} />}
      {query && (
        <section>
          <h3>Queries</h3>
          <p class="soft docs-hint">{builder.obstacle ?? "Check a field to add it to the query."}</p>
          <Portions items={Object.values(query.getFields())} render={(field) => <FieldLine key={field.name} type={query} field={field} path={[field.name]} builder={builder} onOpen={onOpen} />} />
        </section>
      )}
      {shownTypes}
    </>
  );
}

interface ShownProps extends OpenProps {
  schema: GraphQLSchema;
  builder: Builder;
}

function Shown({ schema, spot, way, builder, onOpen }: ShownProps & { spot: Spot; way: readonly Spot[] }) {
  const type = schema.getType(spot.type);
  if (type === undefined) return <p class="soft">The schema no longer has {spot.type}.</p>;
  const field = spot.field === undefined ? undefined : fieldsOf(type)?.[spot.field];
  const place = isInputObjectType(type) ? null : findPlace(schema, builder.operation, type.name, way.slice(0, field ? -1 : undefined));
  const shared = { schema, type, place, builder, onOpen };
  return field ? <FieldPage field={field} {...shared} /> : <TypePage {...shared} />;
}

type AnyField = GraphQLField<unknown, unknown> | GraphQLInputField;

function fieldsOf(type: GraphQLNamedType): Readonly<Record<string, AnyField>> | undefined {
  return isObjectType(type) || isInterfaceType(type) || isInputObjectType(type) ? type.getFields() : undefined;
}

interface PageProps extends ShownProps {
  type: GraphQLNamedType;
  /** Where fields of the type are added; null: nowhere. */
  place: Path | null;
}

function TypePage({ schema, type, place, builder, onOpen }: PageProps) {
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
          {place !== null && place.length > 0 && <p class="soft docs-hint">Checked fields are added to <code>{place.join(".")}</code>.</p>}
          <Portions
            key={type.name}
            items={Object.values(fields)}
            render={(field) => <FieldLine key={field.name} type={type} field={field} path={place && [...place, field.name]} builder={builder} onOpen={onOpen} />}
          />
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

function FieldPage({ type, field, place, builder, onOpen }: PageProps & { field: AnyField }) {
  const args = "args" in field ? field.args : [];
  return (
    <>
      <h3 class="docs-title"><span class="soft">{type.name}.</span>{field.name}</h3>
      <Description text={field.description} />
      <Deprecation reason={field.deprecationReason} />
      {place !== null && "args" in field && <FieldSelection field={field} path={[...place, field.name]} builder={builder} onOpen={onOpen} />}
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
