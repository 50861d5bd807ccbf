import assert from "node:assert/strict";
import { test } from "node:test";
import { tellBytes, tellFigures } from "./tellFigures.js";

test("how large a collection is, as far as it is known", () => {
  assert.deepEqual(tellFigures({ count: 1234, bytes: 56_789, indexes: 1 }, "document"), ["1,234 documents", "57 kB", "1 index"]);
  assert.deepEqual(tellFigures({ count: 1, bytes: null, indexes: null }, "collection"), ["1 collection"]);
  assert.deepEqual(tellFigures({ count: null, bytes: null, indexes: 2 }, "document"), ["2 indexes"]);
});

test("bytes in units that people read", () => {
  for (const [bytes, text] of [[0, "0 B"], [999, "999 B"], [1000, "1.0 kB"], [9_949, "9.9 kB"], [123_456_789, "123 MB"], [5e15, "5,000 TB"]] as const) assert.equal(tellBytes(bytes), text);
});
