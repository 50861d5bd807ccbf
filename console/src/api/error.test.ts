import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, asApiError } from "./error.js";

test("a server that is down has the words of the console, whatever the browser calls it", () => {
  for (const said of ["Failed to fetch dynamically imported module: http://x/a.js", "error loading dynamically imported module", "Importing a module script failed.", "NetworkError when attempting to fetch resource.", "Load failed", "network error"]) {
    const { message, code, hint } = asApiError(new TypeError(said));
    assert.deepEqual([message, code, hint], ["The server does not answer.", "no-connection", "Check the connection, then try again."]);
  }
});

test("other errors say what they are", () => {
  assert.equal(asApiError(new TypeError("x is not a function")).message, "x is not a function");
  const own = new ApiError(403, "forbidden", "no");
  assert.equal(asApiError(own), own);
});
