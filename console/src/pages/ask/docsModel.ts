/** What the documentation shows of a schema, and what is found in it. */

import {
  type GraphQLNamedType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isIntrospectionType,
  isObjectType,
  isUnionType,
} from "graphql";

/** A place of the documentation: a type, or a field of it. */
export interface Spot {
  readonly type: string;
  readonly field?: string;
}

export interface Found {
  readonly spot: Spot;
  readonly about: string;
}

const mostFound = 60;

/** The types of the schema by name, without those of GraphQL itself. */
export function listTypes(schema: GraphQLSchema): readonly GraphQLNamedType[] {
  const types = Object.values(schema.getTypeMap()).filter((type) => !isIntrospectionType(type));
  return types.sort((one, other) => (one.name < other.name ? -1 : 1));
}

export function kindOf(type: GraphQLNamedType): string {
  if (isObjectType(type)) return "type";
  if (isInterfaceType(type)) return "interface";
  if (isUnionType(type)) return "union";
  if (isEnumType(type)) return "enum";
  if (isInputObjectType(type)) return "input";
  return "scalar";
}

/** Types and fields whose name has the text in it; names that begin with it come first. */
export function search(schema: GraphQLSchema, text: string): { readonly found: readonly Found[]; readonly hasMore: boolean } {
  const wanted = text.trim().toLowerCase();
  const groups: Found[][] = [[], [], [], []];
  for (const type of listTypes(schema)) {
    put(groups, 0, type.name, wanted, () => ({ spot: { type: type.name }, about: kindOf(type) }));
    if (!isObjectType(type) && !isInterfaceType(type) && !isInputObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) {
      put(groups, 1, field.name, wanted, () => ({ spot: { type: type.name, field: field.name }, about: String(field.type) }));
    }
  }
  const all = groups.flat();
  return { found: all.slice(0, mostFound), hasMore: all.length > mostFound };
}

function put(groups: Found[][], kind: 0 | 1, name: string, wanted: string, describe: () => Found): void {
  const at = name.toLowerCase().indexOf(wanted);
  if (at >= 0) groups[(at === 0 ? 0 : 2) + kind]!.push(describe());
}
