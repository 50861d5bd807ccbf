import assert from "node:assert/strict";
import { test } from "node:test";
import { type GraphQLInputType, Kind, buildSchema, parseValue } from "graphql";
import { fitsInput, kindOfInput, placeholderOf, showValue, writeValue } from "./literals.js";

const schema = buildSchema(`
  scalar Long scalar ObjectId scalar BsonDocument
  enum Kind { NEWS OTHER }
  input Where { title: String! kind: Kind! likes: Int inner: Where }
  type Query { a(int: Int!, long: Long, float: Float, text: String, id: ObjectId, is: Boolean, kind: Kind!, where: Where!, all: [Int!], any: BsonDocument): Int }
`);
const types = new Map(schema.getQueryType()!.getFields()["a"]!.args.map((one) => [one.name, one.type]));
const typeOf = (name: string): GraphQLInputType => types.get(name)!;
const given = new Set(["given"]);
const show = (name: string, literal: string, isRequired = false) => showValue(typeOf(name), parseValue(literal), given, isRequired);
const write = (name: string, text: string, isRequired = false) => {
  const written = writeValue(typeOf(name), text, given, isRequired);
  return "literal" in written ? written.literal : `! ${written.fault}`;
};

test("each type has the input that fits", () => {
  const kinds = [...types].map(([name, type]) => `${name} ${kindOfInput(type)}`).join(", ");
  assert.equal(kinds, "int number, long number, float number, text text, id text, is choice, kind choice, where literal, all literal, any literal");
});

test("what is typed becomes a literal of the type, or says what is expected", () => {
  assert.equal(write("int", " 3 "), "3");
  assert.match(write("int", "3.5")!, /^! Enter a whole number/);
  for (const far of ["3000000000", "2147483648", "-2147483649"]) assert.match(write("int", far)!, /^! .*32 bits/);
  for (const whole of ["2147483647", "-2147483648"]) assert.equal(write("int", whole), whole);
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
  assert.equal(show("text", '"a \\"b\\""'), 'a "b"');
  assert.equal(showValue(typeOf("int"), undefined, given), "");
  assert.equal(show("int", "$given"), "$given");
  assert.equal(fitsInput(typeOf("kind"), parseValue("$given")), false);
  assert.equal(fitsInput(typeOf("kind"), parseValue("NEWS")), true);
});

test("what an input shows is written as the same value, on one line", () => {
  const texts = ["", " ", "  ", "a  b", " a ", "$given", " $given", "$other", '"', '"a"', 'a"', "a\nb", "a\r\nb", "\\n", "null", "{}", "\t", "\u2028"];
  for (const text of texts) {
    const literal = JSON.stringify(text);
    for (const isRequired of [false, true]) {
      const shown = show("text", literal, isRequired);
      assert.doesNotMatch(shown, /[\r\n]/);
      const node = parseValue(write("text", shown, isRequired)!);
      assert.deepEqual([node.kind, node.kind === Kind.STRING && node.value], [Kind.STRING, text], literal);
    }
    assert.equal(write("all", show("all", `[${literal}]`)), `[${literal}]`);
    assert.equal(write("any", show("any", `{a: {b: ${literal}}}`)), `{a: {b: ${literal}}}`);
  }
  assert.equal(show("any", '{a: """\n  x  y\n    z\n"""}'), '{a: "x  y\\n  z"}');
  assert.equal(show("text", '"""\n  x\n  y\n"""'), '"x\\ny"');
});

test("a text in quotes is one as in a query; only nothing leaves the argument out", () => {
  assert.deepEqual(['""', '"$given"', "  ", ""].map((text) => write("text", text)), ['""', '"$given"', '"  "', null]);
  assert.equal(write("text", "", true), '""');
  for (const text of ['"', '"a', '"a"b', '"a" "b"']) assert.match(write("text", text)!, /^! /);
});

test("a value that has to be given has a valid beginning", () => {
  assert.equal(placeholderOf(typeOf("where")), '{title: "", kind: NEWS}');
  assert.deepEqual(["int", "text", "is", "kind", "all", "any"].map((name) => placeholderOf(typeOf(name))), ["0", '""', "false", "NEWS", "[]", "{}"]);
});
