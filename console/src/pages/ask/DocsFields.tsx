/** A field of the documentation: what it is, whether the query has it, and with which arguments and fields. */

import { type GraphQLField, type GraphQLInputField, type GraphQLInputType, type GraphQLNamedType, Kind, type ValueNode, getNamedType, isCompositeType, isRequiredArgument } from "graphql";
import { Fragment } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { type Path, fieldsOf, variantsOf } from "./builder.js";
import { Deprecation, Description, Portions, TypeLink } from "./DocsParts.js";
import type { Spot } from "./docsModel.js";
import { type InputPath, addInput, findInput, inputFieldsOf, setInput } from "./inputFields.js";
import { choicesOf, fitsInput, kindOfInput, showValue, writeValue } from "./literals.js";
import type { Builder } from "./queryBuilder.js";

interface LineProps {
  type: GraphQLNamedType;
  field: GraphQLField<unknown, unknown> | GraphQLInputField;
  /** Where the query has the field, or would have it; null: there is no place for it. */
  path: Path | null;
  builder: Builder;
  onOpen: (spot: Spot) => void;
  /** Without its description. */
  isShort?: boolean;
}

const fewFields = 50; // of a selected object, in one portion

export function FieldLine({ type, field, path, builder, onOpen, isShort = false }: LineProps) {
  const args = "args" in field ? field.args : [];
  const isSelected = path !== null && builder.isSelected(path);
  const draw = () => (
    <li class="docs-entry">
      <div class="docs-signature">
        {path !== null && <Check path={path} builder={builder} />}
        <span>
          <button type="button" class="docs-link" onClick={() => onOpen({ type: type.name, field: field.name })}>{field.name}</button>
          {args.length > 0 && <span class="soft">({args.length <= 3 ? args.map((one) => one.name).join(", ") : `${args.length} arguments`})</span>}
          <span class="soft">: </span>
          <TypeLink type={field.type} onOpen={onOpen} />
        </span>
      </div>
      {!isShort && <Description text={field.description} isShort />}
      <Deprecation reason={field.deprecationReason} />
      {isSelected && "args" in field && <Selected field={field} path={path} builder={builder} onOpen={onOpen} />}
    </li>
  );
  // Of the many fields that the query does not have, none is drawn again while the user types.
  return useMemo(draw, [type, field, path?.join("."), isShort, onOpen, isSelected ? builder : builder.obstacle]);
}

/** On the page of a field: whether the query has it, and how. */
export function FieldSelection({ field, path, builder, onOpen }: { field: GraphQLField<unknown, unknown> } & Pick<LineProps, "builder" | "onOpen"> & { path: Path }) {
  const isSelected = builder.isSelected(path);
  return (
    <section>
      <label class="docs-check-line">
        <Check path={path} builder={builder} /> In the query as <code>{path.join(".")}</code>
      </label>
      {isSelected && <Selected field={field} path={path} builder={builder} onOpen={onOpen} />}
    </section>
  );
}

function Check({ path, builder }: { path: Path; builder: Builder }) {
  const name = path.join(".");
  return (
    <input
      type="checkbox"
      class="docs-check"
      aria-label={`${name} in the query`}
      checked={builder.isSelected(path)}
      disabled={builder.obstacle !== null}
      title={builder.obstacle ?? undefined}
      onChange={() => builder.latest.current?.toggle(path)}
    />
  );
}

/** The arguments of a field that the query has, and the fields below it. */
function Selected({ field, path, builder, onOpen }: { field: GraphQLField<unknown, unknown>; path: Path } & Pick<LineProps, "builder" | "onOpen">) {
  const type = getNamedType(field.type);
  const node = builder.fieldAt(path);
  return (
    <div class="docs-selected">
      {field.args.map((one) => {
        const value = node?.arguments?.find((given) => given.name.value === one.name)?.value;
        const shared = { type: one.type, of: path.join("."), value, builder, onValue: (next: string | null) => builder.setArgument(path, one.name, next) };
        return (
          <Fragment key={one.name}>
            <ValueInput name={one.name} isRequired={isRequiredArgument(one)} {...shared} />
            {inputFieldsOf(one.type).length > 0 && value?.kind !== Kind.VARIABLE && (
              <details>
                <summary>Fields of {one.name}</summary>
                <InputFields name={one.name} path={[]} onOpen={onOpen} {...shared} />
              </details>
            )}
          </Fragment>
        );
      })}
      {isCompositeType(type) && <Below type={type} path={path} builder={builder} onOpen={onOpen} />}
    </div>
  );
}

function Below({ type, path, builder, onOpen }: { type: GraphQLNamedType; path: Path } & Pick<LineProps, "builder" | "onOpen">) {
  return (
    <>
      <Portions items={fieldsOf(type)} most={fewFields} render={(one) => <FieldLine key={one.name} type={type} field={one} path={[...path, one.name]} builder={builder} onOpen={onOpen} isShort />} />
      {builder.schema !== undefined && (
        <ul class="docs-list">
          {variantsOf(builder.schema, type).map((one) => {
            const own = [...path, `...${one.name}`];
            return (
              <li key={one.name} class="docs-entry">
                <div class="docs-signature"><Check path={own} builder={builder} /><span><span class="soft">on </span><TypeLink type={one} onOpen={onOpen} /></span></div>
                {builder.isSelected(own) && <div class="docs-selected"><Below type={one} path={own} builder={builder} onOpen={onOpen} /></div>}
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}

interface InputProps {
  /** The argument. */
  name: string;
  type: GraphQLInputType;
  /** The field, for its name. */
  of: string;
  value: ValueNode | undefined;
  builder: Builder;
  onValue: (value: string | null) => void;
}

/** The fields of an input object at a path in an argument: which of them it has, and their values. */
function InputFields({ path, onOpen, ...argument }: InputProps & { path: InputPath; onOpen: (spot: Spot) => void }) {
  const { name, type, of, value, builder, onValue } = argument;
  const parent = path.reduce((at, step) => inputFieldsOf(at).find((one) => one.name === step)?.type ?? at, type);
  return (
    <Portions
      items={inputFieldsOf(parent)}
      most={fewFields}
      render={(field) => {
        const fieldPath = [...path, field.name];
        const label = [name, ...fieldPath].join(".");
        const given = findInput(value, fieldPath);
        return (
          <li key={field.name} class="docs-entry">
            <div class="docs-signature">
              <input
                type="checkbox"
                class="docs-check"
                aria-label={`${label} of ${of} in the query`}
                checked={given !== undefined}
                disabled={builder.obstacle !== null}
                onChange={() => onValue(given === undefined ? addInput(type, value, fieldPath) : setInput(type, value, fieldPath, null))}
              />
              <span>{field.name}<span class="soft">: </span><TypeLink type={field.type} onOpen={onOpen} /></span>
            </div>
            {given !== undefined && (
              <div class="docs-selected">
                {inputFieldsOf(field.type).length === 0 ? (
                  <ValueInput name={label} type={field.type} of={of} value={given} isRequired builder={builder} onValue={(next) => onValue(setInput(type, value, fieldPath, next))} />
                ) : given.kind !== Kind.VARIABLE && <InputFields path={fieldPath} onOpen={onOpen} {...argument} />}
              </div>
            )}
          </li>
        );
      }}
    />
  );
}

/** An input for a value; the query has what is typed as soon as it is valid. */
function ValueInput({ name, type, of, value, isRequired, builder, onValue }: InputProps & { isRequired: boolean }) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null); // while the user types
  const shown = typed ?? showValue(type, value, builder.variables, isRequired);
  const written = writeValue(type, shown, builder.variables, isRequired);
  const isMissing = isRequired && "literal" in written && written.literal === null;
  const fault = "fault" in written ? written.fault : isMissing ? "It has to be given" : null;
  const change = (text: string) => {
    setTyped(text);
    const next = writeValue(type, text, builder.variables, isRequired);
    if ("literal" in next && !(isRequired && next.literal === null)) onValue(next.literal);
  };
  const common = { id, "aria-label": `${name} of ${of}`, class: "input docs-input", disabled: builder.obstacle !== null, onBlur: () => setTyped(null) };
  const isChoice = kindOfInput(type) === "choice" && fitsInput(type, value) && typed === null;
  return (
    <div class="docs-argument">
      <label for={id}>{name.slice(name.lastIndexOf(".") + 1)}</label>
      {isChoice ? (
        <select {...common} value={shown} onChange={(event) => { setTyped(null); onValue(event.currentTarget.value || null); }}>
          {!isRequired && <option value="">–</option>}
          {choicesOf(type).map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      ) : (
        <input
          {...common}
          type="text"
          inputMode={kindOfInput(type) === "number" ? "decimal" : "text"}
          autocomplete="off"
          spellcheck={false}
          placeholder={String(type)}
          value={shown}
          aria-invalid={fault !== null}
          aria-describedby={fault === null ? undefined : `${id}-fault`}
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
      {fault !== null && <p id={`${id}-fault`} class="docs-fault" role="status">{fault}</p>}
    </div>
  );
}
