import assert from "node:assert/strict";
import { test } from "node:test";
import { type FieldNode, buildSchema, parse, validate } from "graphql";
import { type Path, addField, findPlace, findSelected, removeField, setArgument } from "./builder.js";
import { readOperations } from "./operations.js";

const schema = buildSchema(`
  type Query { posts(limit: Int, where: Where): [Post] post(id: Int!, kind: Kind!): Post pet: Pet count: Int }
  enum Kind { NEWS OTHER }
  input Where { title: String! likes: [Int!]! }
  type Post { _id: Int! title: String likes: Int author: Author search(where: Where!): [Post] }
  type Author { name: String posts: [Post] }
  union Pet = Dog | Cat
  type Dog { barks: Boolean }
  type Cat { friend: Cat }
`);
const operationOf = (text: string) => readOperations(text).operations[0] ?? null;
const add = (text: string, ...path: Path) => addField(text, schema, operationOf(text), path);
const remove = (text: string, ...path: Path) => removeField(text, operationOf(text)!, path);
const set = (text: string, name: string, value: string | null, ...path: Path) => setArgument(text, findSelected(operationOf(text), path) as FieldNode, name, value);
const assertValid = (text: string) => assert.deepEqual(validate(schema, parse(text)), [], text);

test("the first field makes a query, with the fields that an object needs", () => {
  assert.equal(add("", "posts"), "{\n  posts {\n    _id\n    title\n  }\n}\n");
  assert.equal(add("# mine\n", "count"), "# mine\n{\n  count\n}\n");
});

test("a field goes to the end of its object, and the rest stays as it is written", () => {
  assert.equal(add("{\n    posts { title } # all\n}", "posts", "likes"), "{\n    posts { title likes } # all\n}");
  assert.equal(add("{\n    posts {\n        title # why\n    }\n}", "posts", "author"), "{\n    posts {\n        title # why\n        author {\n          name\n        }\n    }\n}");
  assert.equal(add("query Q {\n  count }", "pet"), "query Q {\n  count\n  pet {\n    __typename\n  }\n}");
  assert.equal(add("{ count }", "posts", "author", "name"), "{ count posts { author { name } } }");
});

test("arguments that have to be given are given", () => {
  assert.equal(add("{ count }", "post"), "{ count post(id: 0, kind: NEWS) { _id title } }");
  assert.equal(add("{ posts { _id } }", "posts", "search"), '{ posts { _id search(where: {title: "", likes: []}) { _id title } } }');
});

test("fields of one type of several are in a fragment on it", () => {
  const text = add("", "pet", "...Dog", "barks");
  assert.equal(text, "{\n  pet {\n    ... on Dog {\n      barks\n    }\n  }\n}\n");
  assert.equal(remove(add(text, "pet", "...Cat"), "pet", "...Dog", "barks"), "{\n  pet {\n    ... on Cat {\n      __typename\n    }\n  }\n}\n");
});

test("a field is removed with its line, and an object with its last field", () => {
  assert.equal(remove("{\n  posts {\n    _id\n    title\n  }\n}\n", "posts", "_id"), "{\n  posts {\n    title\n  }\n}\n");
  assert.equal(remove("{ count posts { author { name } } }", "posts", "author", "name"), "{ count }");
  assert.equal(remove("{ a: count, posts { _id # id\n title } }", "posts", "title"), "{ a: count, posts { _id # id\n } }");
  assert.equal(remove("{ count posts { _id } }", "count"), "{ posts { _id } }");
  assert.equal(remove("query Q { count }\n", "count"), "");
  assert.equal(remove("query Q { count }\nquery R { count }\n", "count"), "query R { count }\n");
});

test("every field can be added and removed again, and every text between is valid", () => {
  const steps: Path[] = [["posts"], ["posts", "author"], ["posts", "author", "posts"], ["post"], ["post", "search"], ["pet"], ["pet", "...Dog"], ["pet", "...Cat", "friend"], ["count"]];
  for (const begin of ["", "query Q { count }", "{\n  count\n}\n"]) {
    let text = begin;
    for (const path of steps) {
      text = add(text, ...path);
      assertValid(text);
      assert.notEqual(findSelected(operationOf(text), path), null);
    }
    for (const path of [...steps].reverse().slice(0, -1)) {
      text = remove(text, ...path);
      assertValid(text);
      assert.equal(findSelected(operationOf(text), path), null, text);
    }
  }
});

test("an argument is added, changed and removed, and the others stay", () => {
  assert.equal(set("{ posts { _id } }", "limit", "3", "posts"), "{ posts(limit: 3) { _id } }");
  assert.equal(set("{ posts(limit: 3) { _id } }", "limit", "4", "posts"), "{ posts(limit: 4) { _id } }");
  assert.equal(set("{ posts(limit: 3) { _id } }", "where", "{}", "posts"), "{ posts(limit: 3, where: {}) { _id } }");
  assert.equal(set("{ posts(limit: 3, where: {}) { _id } }", "limit", null, "posts"), "{ posts(where: {}) { _id } }");
  assert.equal(set("{ posts(limit: 3, where: {}) { _id } }", "where", null, "posts"), "{ posts(limit: 3) { _id } }");
  assert.equal(set('{ posts(where: {title: "(a)"}) { _id } }', "where", null, "posts"), "{ posts { _id } }");
  assert.equal(set("{ posts { _id } }", "limit", null, "posts"), "{ posts { _id } }");
});

test("fields of a type belong to the path by which the reader came, or where the query has such an object", () => {
  const query = operationOf("{ count posts { author { name } } }");
  const way = [{ type: "Query", field: "post" }, { type: "Post" }];
  assert.deepEqual(findPlace(schema, query, "Post", way), ["post"]);
  assert.deepEqual(findPlace(schema, query, "Post", [{ type: "Post" }]), ["posts"]);
  assert.deepEqual(findPlace(schema, query, "Author", [...way, { type: "Post", field: "author" }, { type: "Author" }]), ["post", "author"]);
  assert.deepEqual(findPlace(schema, query, "Author", [{ type: "Author" }]), ["posts", "author"]);
  assert.deepEqual(findPlace(schema, query, "Query", []), []);
  assert.equal(findPlace(schema, query, "Dog", [{ type: "Dog" }]), null);
});
