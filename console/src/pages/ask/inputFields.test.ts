import assert from "node:assert/strict";
import { test } from "node:test";
import { type GraphQLInputType, buildSchema, parse, parseValue, print, validate } from "graphql";
import { addInput, findInput, inputFieldsOf, setInput } from "./inputFields.js";

const schema = buildSchema(`
  type Query { orders(where: OrderWhere, orderBy: [OrderOrder!]): Int }
  enum SortOrder { ASC DESC }
  input OrderWhere { total: OrderWhereTotal customer: OrderWhereCustomer lines: OrderWhereLines or: [OrderWhere!] not: OrderWhere }
  input OrderWhereTotal { gte: Int in: [Int!] }
  input OrderWhereCustomer { city: OrderWhereCity exists: Boolean }
  input OrderWhereCity { eq: String }
  input OrderWhereLines { some: OrderWhereTotal none: OrderWhereTotal }
  input OrderOrder { total: SortOrder customer: OrderOrderCustomer }
  input OrderOrderCustomer { name: SortOrder city: SortOrder }
`);
const types = new Map(schema.getQueryType()!.getFields()["orders"]!.args.map((one) => [one.name, one.type]));
const read = (text: string | null) => (text === null ? undefined : parseValue(text));
const typeOf = (name: string): GraphQLInputType => types.get(name)!;
const add = (name: string, text: string | null, path: string) => addInput(typeOf(name), read(text), path.split("."));
const set = (name: string, text: string | null, path: string, literal: string | null) => setInput(typeOf(name), read(text), path.split("."), literal);
const find = (text: string, path: string) => {
  const found = findInput(parseValue(text), path.split("."));
  return found && print(found);
};

test("a relation is checked into the conditions, then its fields and their operators", () => {
  assert.equal(add("where", null, "customer"), "{customer: {}}");
  assert.equal(add("where", "{customer: {}}", "customer.city"), "{customer: {city: {}}}");
  assert.equal(add("where", "{customer: {city: {}}}", "customer.city.eq"), '{customer: {city: {eq: ""}}}');
  assert.equal(add("where", "{total: {gte: 3}}", "lines.some"), "{total: {gte: 3}, lines: {some: {}}}");
  assert.equal(set("where", '{customer: {city: {eq: ""}}}', "customer.city.eq", '"Rome"'), '{customer: {city: {eq: "Rome"}}}');
});

test("a field is removed with all below it, and the argument with its last field", () => {
  assert.equal(set("where", '{total: {gte: $least}, customer: {city: {eq: "Rome"}}}', "customer", null), "{total: {gte: $least}}");
  assert.equal(set("where", '{customer: {city: {eq: "Rome"}}}', "customer.city", null), "{customer: {}}");
  assert.equal(set("where", '{customer: {city: {eq: "Rome"}}}', "customer", null), null);
});

test("each order is an object of its own, with a field that it can be ordered by", () => {
  assert.equal(add("orderBy", null, "customer"), "[{customer: {name: ASC}}]");
  assert.equal(add("orderBy", "[{customer: {name: ASC}}]", "total"), "[{customer: {name: ASC}}, {total: ASC}]");
  assert.equal(add("orderBy", "[{customer: {name: ASC}}]", "customer.city"), "[{customer: {name: ASC}}, {customer: {city: ASC}}]");
  assert.equal(set("orderBy", "[{customer: {name: ASC}}, {total: ASC}]", "total", "DESC"), "[{customer: {name: ASC}}, {total: DESC}]");
  assert.equal(set("orderBy", "[{customer: {name: ASC}}, {total: ASC}]", "customer.name", null), "[{total: ASC}]");
  assert.equal(set("orderBy", "[{customer: {name: ASC}}, {total: ASC}, {customer: {city: ASC}}]", "customer", null), "[{total: ASC}]");
  assert.equal(set("orderBy", "[{total: ASC}]", "total", null), null);
  assert.equal(set("orderBy", "{total: ASC}", "total", "DESC"), "{total: DESC}"); // a list of one can be written without brackets
});

test("alternatives have objects of their own, and those that someone wrote stay", () => {
  assert.equal(add("where", "{or: [{}, {total: {}}]}", "or.customer.exists"), "{or: [{}, {total: {}}, {customer: {exists: false}}]}");
  assert.equal(set("where", "{or: [{}, {total: {gte: 1}}]}", "or.total.gte", null), "{or: [{}]}");
});

test("what a value has is found, also in lists and not in variables", () => {
  assert.equal(find('{customer: {city: {eq: "Rome"}}}', "customer.city.eq"), '"Rome"');
  assert.equal(find("[{total: ASC}, {customer: {name: DESC}}]", "customer.name"), "DESC");
  assert.equal(find("{customer: $customer}", "customer.city"), undefined);
});

test("every field can be checked and unchecked again, and every value between is valid", () => {
  for (const [name, type] of types) {
    const paths = [...pathsOf(type, 3)];
    assert.ok(paths.some((path) => path.includes("customer")));
    for (const path of paths) {
      const added = addInput(type, undefined, path)!;
      assert.deepEqual(validate(schema, parse(`{ orders(${name}: ${added}) }`)), [], added);
      assert.notEqual(findInput(parseValue(added), path), undefined, path.join("."));
      assert.equal(findInput(read(setInput(type, parseValue(added), path, null)), path), undefined, added);
    }
  }
});

function* pathsOf(type: GraphQLInputType, depth: number): Generator<string[]> {
  for (const field of depth === 0 ? [] : inputFieldsOf(type)) {
    yield [field.name];
    for (const rest of pathsOf(field.type, depth - 1)) yield [field.name, ...rest];
  }
}
