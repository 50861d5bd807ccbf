import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSchema, parse, validate } from "graphql";
import { writeExamples } from "./example.js";

const blog = buildSchema(`
  type Query { post(id: Int!): Post  tags: [Tag]  posts(limit: Int): [Post]  authors(limit: Int): [Author]  count: Int }
  type Post { title: String  author: Author  comments(limit: Int): [Comment] }
  type Author { name: String  posts(limit: Int): [Post] }
  type Comment { text: String }
  type Tag { name: String }
`);

test("the first example goes over a relation and asks for few rows", () => {
  const [first] = writeExamples(blog);
  assert.deepEqual(first, { title: "posts with author", query: "{\n  posts(limit: 5) {\n    title\n    author {\n      name\n    }\n  }\n}\n", isSmall: true });
});

test("there are three more, and all of them are valid", () => {
  const examples = writeExamples(blog);
  assert.deepEqual(examples.map((one) => one.title).slice(0, 2), ["posts with author", "authors with posts"]);
  assert.equal(examples.length, 4);
  for (const { query } of examples) assert.deepEqual(validate(blog, parse(query)), []);
});

test("a list without a bound is not small, and comes last", () => {
  const examples = writeExamples(buildSchema("type Query { all: [Thing]  one: Thing } type Thing { name: String }"));
  assert.deepEqual(examples.map(({ title, isSmall }) => [title, isSmall]), [["one", true], ["all", false]]);
});

test("where everything needs an argument there is no example", () => {
  assert.deepEqual(writeExamples(buildSchema("type Query { one(id: ID!): String }")), []);
});
