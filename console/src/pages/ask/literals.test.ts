import assert from "node:assert/strict";
import { test } from "node:test";
import { type GraphQLInputType, buildSchema, parseValue } from "graphql";
import { fitsInput, kindOfInput, placeholderOf, showValue, writeValue } from "./literals.js";

const schema = buildSchema(`
  scalar Long scalar ObjectId scalar BsonDocument
  enum Kind { NEWS OTHER }
  input Where { title: String! kind: Kind! likes: Int inner: Where }
  type Query { a(int: Int!, long: Long, float: Float, text: String, id: ObjectId, is: Boolean, kind: Kind!, where: Where!, all: [Int!], any: BsonDocument): Int }
`);
const types = new Map(schema.getQueryType()!.getFields()["a"]!.args.map((one) => [one.name, one.type]));
const typeOf = (name: string): GraphQLInputType => types.get(name)!;
const write = (name: string, text: string) => {
  const written = writeValue(typeOf(name), text, new Set(["given"]));
  return "literal" in written ? written.literal : `! ${written.fault}`;
};

test("each type has the input that fits", () => {
  const kinds = [...types].map(([name, type]) => `${name} ${kindOfInput(type)}`).join(", ");
  assert.equal(kinds, "int number, long number, float number, text text, id text, is choice, kind choice, where literal, all literal, any literal");
});

test("what is typed becomes a literal of the type, or says what is expected", () => {
  assert.equal(write("int", " 3 "), "3");
  assert.match(write("int", "3.5")!, /^! Enter a whole number/);
  assert.match(write("int", "3000000000")!, /^! .*32 bits/);
  assert.equal(write("long", "9007199254740993"), "9007199254740993");
  assert.equal(write("float", "-1.5e3"), "-1.5e3");
  assert.equal(write("text", 'a "b"\\ '), '"a \\"b\\"\\\\ "');
  assert.equal(write("id", "123"), '"123"');
  assert.equal(write("is", "true"), "true");
  assert.match(write("kind", "PLANT")!, /NEWS, OTHER/);
  assert.equal(write("where", '{title: "a" kind:NEWS}'), '{title: "a", kind: NEWS}');
  assert.match(write("all", "[1")!, /^! /);
  assert.equal(write("text", ""), null);
});

test("a variable of the operation is a variable, anything else with a dollar is a text", () => {
  assert.equal(write("int", "$given"), "$given");
  assert.equal(write("text", "$5"), '"$5"');
});

test("an input shows what the query has", () => {
  assert.equal(showValue(typeOf("text"), parseValue('"a \\"b\\""')), 'a "b"');
  assert.equal(showValue(typeOf("int"), undefined), "");
  assert.equal(showValue(typeOf("int"), parseValue("$given")), "$given");
  assert.equal(fitsInput(typeOf("kind"), parseValue("$given")), false);
  assert.equal(fitsInput(typeOf("kind"), parseValue("NEWS")), true);
});

test("a value that has to be given has a valid beginning", () => {
  assert.equal(placeholderOf(typeOf("where")), '{title: "", kind: NEWS}');
  assert.deepEqual(["int", "text", "is", "kind", "all", "any"].map((name) => placeholderOf(typeOf(name))), ["0", '""', "false", "NEWS", "[]", "{}"]);
});
