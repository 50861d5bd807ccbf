import assert from "node:assert/strict";
import { test } from "node:test";
import { type DocumentNode, type FieldNode, Kind, type OperationDefinitionNode, type SelectionNode, buildSchema, parse, parseValue, print, validate, visit } from "graphql";
import { type Path, addField, fieldsOf, findPlace, findSelected, removeField, setArgument } from "./builder.js";
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

test("names stay apart, and brackets in comments and texts are none", () => {
  assert.equal(remove("{posts{_id,title,likes}}", "posts", "title"), "{posts{_id,likes}}");
  assert.equal(remove("{posts{_id,title,likes}}", "posts", "_id"), "{posts{title,likes}}");
  assert.equal(remove("{posts{_id author{name}likes}}", "posts", "author"), "{posts{_id likes}}");
  assert.equal(set("{ posts( # (a\n limit: 3 # b)\n) { _id } }", "limit", null, "posts"), "{ posts { _id } }");
  assert.equal(set("{posts(limit:3){_id}}", "limit", null, "posts"), "{posts{_id}}");
  assert.equal(set("{posts(limit:$v where:{title:\"\"}other:2){_id}}", "where", null, "posts"), "{posts(limit:$v other:2){_id}}");
  assert.equal(set('{posts(where:""limit:2){_id}}', "where", "3", "posts"), "{posts(where:3 limit:2){_id}}");
});

// --- whatever is changed, the rest is as it was ---------------------------------------------------

const written = [
  "{posts{_id,title,likes}}",
  "{ posts { _id, title , likes }, count }",
  "{posts{_id author{name}likes}count}",
  "query Q($v:Int){count posts(limit:$v where:{title:\"a  )\",likes:[]}){_id title}pet{...on Dog{barks}...on Cat{friend{__typename}}}}query R{count}",
  "# (top {\n{\n  posts( # (a\n    limit: 3 # b) }\n  ) { # c {\n    _id # d }\n    title,\n    likes } # e\n  count }\n# end",
  '{\n  posts(\n    limit: 3,\n    where: {title: """\n    a)\n      b }\n    """, likes: []}\n  ) @include(if: true) {\n    _id\n    author { name }\n  }\n}\nfragment F on Post{_id}',
  "{\r\n  posts {\r\n    _id # a\r\n    title\r\n  }\r\n  count\r\n}\r\n",
  "{ a: posts(limit: 1) { b: _id, title }, ...F, count } fragment F on Query { count }",
];
const stepOf = (node: SelectionNode) => (node.kind === Kind.FIELD ? node.name.value : node.kind === Kind.INLINE_FRAGMENT ? `...${node.typeCondition!.name.value}` : "");

/** Paths of everything that is selected. */
function* pathsIn(selections: readonly SelectionNode[], above: Path = []): Generator<Path> {
  for (const node of selections.filter((one) => one.kind !== Kind.FRAGMENT_SPREAD)) {
    yield [...above, stepOf(node)];
    yield* pathsIn(node.selectionSet?.selections ?? [], [...above, stepOf(node)]);
  }
}

/** Selections without the first at a path, and without objects that have no fields afterwards. */
function without(selections: readonly SelectionNode[], [step, ...rest]: Path): readonly SelectionNode[] {
  const at = selections.findIndex((one) => stepOf(one) === step);
  return selections.flatMap((node, index) => {
    if (index !== at) return [node];
    if (rest.length === 0 || node.kind === Kind.FRAGMENT_SPREAD) return [];
    const below = without(node.selectionSet!.selections, rest);
    return below.length === 0 ? [] : [{ ...node, selectionSet: { ...node.selectionSet!, selections: below } }];
  });
}

function printWithout(text: string, path: Path): string {
  const document = parse(text);
  const [operation] = readOperations(text).operations as [OperationDefinitionNode];
  const selections = without(operation.selectionSet.selections, path);
  const definitions = document.definitions.flatMap((one) => (one.loc!.start !== operation.loc!.start ? [one] : selections.length === 0 ? [] : [{ ...operation, selectionSet: { ...operation.selectionSet, selections } }]));
  return print({ ...document, definitions });
}

const tidy = (text: string) => (text.replace(/#.*/g, "").trim() === "" ? "" : print(parse(text)));
const commentsOf = (text: string) => text.match(/#.*/g)?.length ?? 0;

test("removing a field removes this field only", () => {
  for (const text of written) {
    for (const path of pathsIn(operationOf(text)!.selectionSet.selections)) assert.equal(tidy(remove(text, ...path)), printWithout(text, path), `${text} without ${path.join(".")}`);
  }
});

test("adding a field adds this field only", () => {
  for (const text of written) {
    const above: Path[] = [[], ...pathsIn(operationOf(text)!.selectionSet.selections)];
    const candidates = above.flatMap((path) => Object.values(schema.getTypeMap()).flatMap(fieldsOf).map((field) => [...path, field.name]));
    const added = candidates.filter((path) => add(text, ...path) !== text);
    assert.notEqual(added.length, 0);
    for (const path of added) {
      const next = add(text, ...path);
      assert.notEqual(findSelected(operationOf(next), path), null);
      assert.equal(printWithout(next, path), tidy(text), `${text} with ${path.join(".")}`);
      assert.equal(commentsOf(next), commentsOf(text));
    }
  }
});

/** What setting an argument has to give. */
function printWith(document: DocumentNode, field: FieldNode, name: string, value: string | null): string {
  const own = field.arguments ?? [];
  const given = value === null ? [] : [{ kind: Kind.ARGUMENT as const, name: { kind: Kind.NAME as const, value: name }, value: parseValue(value) }];
  const isNew = own.every((one) => one.name.value !== name);
  const next = isNew ? [...own, ...given] : own.flatMap((one) => (one.name.value === name ? given : [one]));
  return print(visit(document, { Field: (node) => (node.loc!.start === field.loc!.start ? { ...node, arguments: next } : undefined) }));
}

test("setting an argument changes this argument only", () => {
  for (const text of written) {
    for (const path of pathsIn(operationOf(text)!.selectionSet.selections)) {
      const field = findSelected(operationOf(text), path);
      for (const value of field?.kind === Kind.FIELD ? ["-3", "NEWS", '"x  )"', '{a: "b"}', "$v", null] : []) {
        for (const name of ["limit", "where", "kind"]) {
          assert.equal(tidy(set(text, name, value, ...path)), printWith(parse(text), field as FieldNode, name, value), `${text}: ${name} of ${path.join(".")} = ${value}`);
        }
      }
    }
  }
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
