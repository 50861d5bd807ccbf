import assert from "node:assert/strict";
import { test } from "node:test";
import { selectMounted, withoutListed } from "./mounted.js";
import { findOwn } from "./useOwn.js";

test("what is listed is not repeated among what is mounted elsewhere", () => {
  assert.deepEqual(withoutListed(["posts", "shop", "a%2Fb", "other/x"], ["posts", "a/b"]), ["shop", "other/x"]);
});

test("what is mounted next to a list of databases is found, and what is below another list is not", () => {
  const tagged = (tag: string) => ({ get: { tags: [tag] } });
  const paths = { "/": tagged("databases"), "/{db}": tagged("database"), "/archive": tagged("database"), "/archive/old": {}, "/archive/old/_indexes": {}, "/posts": {}, "/posts/_indexes": {}, "/posts/_size": {}, "/other": {} };
  assert.deepEqual(selectMounted(paths, ""), ["archive", "posts"]);
  const moved = Object.fromEntries(Object.entries(paths).map(([path, value]) => [`/data${path}`, value]));
  assert.deepEqual(selectMounted(moved, "/data"), ["archive", "posts"]);
});

test("the server's own collections are known by their paths", () => {
  const paths = [["/gql-apps", "app definitions"], [null, "users"], ["/shop/people%20here", "users"]] as const;
  assert.deepEqual([...findOwn([], paths).keys()], ["_schemas", "gql-apps"]);
  assert.deepEqual([...findOwn(["shop"], paths)], [["_schemas", "JSON schemas"], ["people here", "users"]]);
});
