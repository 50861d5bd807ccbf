import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSchema } from "graphql";
import { type Edits, findGone, findMistakes, leaveOut, noEdits, readTypes, revise } from "./schema.js";

const schema = `type Query {
  order(id: Int!): Order
  "Each argument that is given narrows the list"
  orders(
    status: Status
    limit: Int = 20
  ): [Order!]!
  customers: [Customer!]!
}

# collection orders: about 60 documents
"A document of orders"
type Order {
  id: Int!
  total: Float  # in 51 % of the documents
  status: Status
  # 9 of 10 values were found
  customer: Customer
  items: [OrderItem]
  # password: left out, it looks like a secret
}

type OrderItem {
  count: Int
}

type Customer {
  id: Int!
  name: String
  orders(limit: Int = 20): [Order!]!
}

enum Status {
  OPEN
  DONE
}
`;
const mappings = {
  Query: {
    order: { collection: "orders" },
    orders: { collection: "orders", filter: { fields: { id: ["eq"], total: ["range"], "items.count": ["eq"] }, "indexed-only": true }, orderBy: { fields: ["total"] } },
    customers: { collection: "customers" },
  },
  Order: { id: "_id", customer: { collection: "customers" } },
  Customer: { id: "_id", orders: { collection: "orders" } },
  Status: { OPEN: "open" },
};

function edit(names: Record<string, string>, dropped: readonly string[] = []): Edits {
  return { names: new Map(Object.entries(names)), dropped: new Set(dropped) };
}

test("without edits nothing changes", () => {
  assert.deepEqual(revise({ schema, mappings }, noEdits), { schema, mappings });
});

test("a type is renamed wherever it is named, and its mappings with it", () => {
  const revised = revise({ schema, mappings }, edit({ Order: "Purchase", Status: "State" }));
  assert.match(revised.schema, /^type Purchase \{/m);
  assert.match(revised.schema, /orders\(limit: Int = 20\): \[Purchase!\]!/);
  assert.match(revised.schema, /status: State\b/);
  assert.doesNotMatch(revised.schema, /\bOrder\b/);
  assert.deepEqual(Object.keys(revised.mappings), ["Query", "Purchase", "Customer", "State"]);
  buildSchema(revised.schema);
});

test("a renamed field reads what it read before, and lists are filtered by its new name", () => {
  const revised = revise({ schema, mappings }, edit({ "Order.total": "sum", "Order.id": "number", "OrderItem.count": "pieces", "Query.order": "purchase" }));
  assert.match(revised.schema, /^ {2}sum: Float {2}# in 51 %/m);
  assert.deepEqual(revised.mappings["Order"], { number: "_id", sum: "total", customer: { collection: "customers" } });
  assert.deepEqual(revised.mappings["OrderItem"], { pieces: "count" });
  assert.deepEqual(revised.mappings["Query"]?.["orders"], {
    collection: "orders",
    filter: { fields: { number: ["eq"], sum: ["range"], "items.pieces": ["eq"] }, "indexed-only": true },
    orderBy: { fields: ["sum"] },
  });
  assert.ok("purchase" in (revised.mappings["Query"] ?? {}));
});

test("a dropped field leaves a comment, so that it stays out; lists do not name it any more", () => {
  const revised = revise({ schema, mappings }, edit({}, ["Order.total", "Order.customer", "Query.orders"]));
  assert.match(revised.schema, /^ {2}# total: Float$/m);
  assert.match(revised.schema, /^ {2}# customer: Customer$/m);
  assert.match(revised.schema, /^ {2}# orders: \[Order!\]!$/m);
  assert.doesNotMatch(revised.schema, /9 of 10|narrows/);
  assert.deepEqual(revised.mappings["Order"], { id: "_id" });
  assert.ok(!("orders" in (revised.mappings["Query"] ?? {})));
  buildSchema(revised.schema);
});

test("orderBy without a field left is dropped", () => {
  const orders = revise({ schema, mappings }, edit({}, ["Order.total"])).mappings["Query"]?.["orders"] as Record<string, unknown>;
  assert.ok(!("orderBy" in orders));
});

test("with a type go the fields that lead to it and the types that only it has", () => {
  const gone = findGone(schema, new Set(["Order"]));
  for (const key of ["Order", "OrderItem", "Status", "Query.order", "Query.orders", "Customer.orders"]) assert.ok(gone.has(key), key);
  assert.ok(!gone.has("Customer"));
  const revised = revise({ schema, mappings }, edit({}, ["Order"]));
  assert.match(revised.schema, /^# type Order$/m);
  assert.doesNotMatch(revised.schema, /OrderItem|password|collection orders/);
  assert.deepEqual(Object.keys(revised.mappings), ["Query", "Customer"]);
  buildSchema(revised.schema);
});

test("names must be names of GraphQL, and there is one of each", () => {
  const types = readTypes(schema);
  const find = (edits: Edits) => findMistakes(types, findGone(schema, edits.dropped), edits);
  assert.equal(find(noEdits).size, 0);
  assert.deepEqual([...find(edit({ Order: "Customer", "Order.total": "2nd", "Customer.name": "__x" })).keys()].sort(), ["Customer", "Customer.name", "Order.total"]);
  assert.ok(find(edit({ "Order.total": "id" })).has("Order.total"));
  assert.equal(find(edit({ "Order.total": "id" }, ["Order.id"])).size, 0);
  assert.ok(find(edit({}, ["Order", "Customer"])).has(""));
});

test("fields that have the names of what every object has are mapped as others are", () => {
  const text = "type Query {\n  posts: [constructor]\n}\n\ntype constructor {\n  toString: Int\n  a: Int\n}\n";
  const revised = revise({ schema: text, mappings: {} }, edit({ "constructor.toString": "valueOf" }));
  assert.deepEqual(revised.mappings, { constructor: { valueOf: "toString" } });
});

test("additions that are left out are comments in the author's schema", () => {
  const own = "type Query { people: [Person] }\n\n# mine\ntype Person {\n  _id: String\n}";
  const found = `${own.replace("_id: String", "_id: String\n  name: String!\n  tags: [String]").replace("people: [Person]", "people: [Person] orders(limit: Int): [Order!]!")}\ntype Order { _id: String }\n`;
  const text = leaveOut(own, found, new Set(["Person.name", "Person.tags", "Query.orders", "Order"]));
  assert.equal(text, "type Query { people: [Person] \n  # orders: [Order!]!\n}\n\n# mine\ntype Person {\n  _id: String\n  # name: String!\n  # tags: [String]\n}\n# type Order\n");
  buildSchema(text);
});
