import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutListed } from "./mounted.js";
import { findOwn } from "./useOwn.js";

test("what is listed is not repeated among what is mounted elsewhere", () => {
  assert.deepEqual(withoutListed(["posts", "shop", "a%2Fb", "other/x"], ["posts", "a/b"]), ["shop", "other/x"]);
});

test("the server's own collections are known by their paths", () => {
  const paths = [["/gql-apps", "app definitions"], [null, "users"], ["/shop/people%20here", "users"]] as const;
  assert.deepEqual([...findOwn([], paths).keys()], ["_schemas", "gql-apps"]);
  assert.deepEqual([...findOwn(["shop"], paths)], [["_schemas", "JSON schemas"], ["people here", "users"]]);
});
