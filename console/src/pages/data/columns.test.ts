import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fields } from "../../api/typed.js";
import { chooseColumns } from "./columns.js";

const document = (...names: readonly string[]): Fields => new Map(names.map((name) => [name, 1 as never]));

test("all names have columns while there is room, _id first and _etag never", () => {
  assert.deepEqual(chooseColumns([document("b", "_id", "_etag"), document("a", "_id")]), { names: ["_id", "b", "a"], left: 0 });
});

test("one wide document does not take the columns of the others", () => {
  const wide = document("_id", ...Array.from({ length: 40 }, (_, index) => `w${index}`), "name");
  const { names, left } = chooseColumns([wide, document("_id", "name", "kind"), document("_id", "name", "kind")], 3);
  assert.deepEqual([names, left], [["_id", "name", "kind"], 40]);
});

test("documents without a readable id have their names alone", () => {
  assert.deepEqual(chooseColumns([document("a")]), { names: ["a"], left: 0 });
});
