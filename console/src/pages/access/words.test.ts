/** Which passwords the forms about users reject. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isGuessed } from "./words.js";

test("passwords that are guessed immediately are found", () => {
  for (const one of ["ab", "short12", "aaaaaaaaaa", "Gertrude"]) assert.equal(isGuessed(one, " gertrude "), true, one);
  for (const one of ["", "a long enough secret", "gertrude's cat"]) assert.equal(isGuessed(one, "gertrude"), false, one);
});
