import assert from "node:assert/strict";
import { test } from "node:test";
import { readHeaders, storable } from "./headers.js";

const faultOf = (text: string) => readHeaders(text).findings.map(({ line, severity, message }) => `${line} ${severity} ${message}`).join("\n");

test("each line is a header; empty lines and comments are none", () => {
  const { headers, findings, isSecret } = readHeaders("X-Tenant: north: 1 \n\n# later\n  Prefer:count\n");
  assert.deepEqual(headers, { "X-Tenant": "north: 1", Prefer: "count" });
  assert.deepEqual([findings, isSecret], [[], false]);
});

test("credentials are neither sent nor stored", () => {
  for (const text of ["Authorization: Basic abc", "cookie: a=b", "Proxy-Authorization: x", "AUTHORIZATION : x"]) {
    assert.deepEqual(readHeaders(text).headers, {}, text);
    assert.match(faultOf(text), /^1 error Not sent/);
    assert.equal(storable(`X-Tenant: a\n${text}`), "");
  }
});

test("what may be a secret is sent, and not stored", () => {
  assert.deepEqual(readHeaders("X-Api-Key: abc").headers, { "X-Api-Key": "abc" });
  assert.match(faultOf("X-Api-Key: abc"), /^1 info .*does not store/);
  assert.equal(storable("X-Api-Key: abc"), "");
  assert.equal(storable("X-Tenant: a"), "X-Tenant: a");
});

test("no line that may have a secret is stored, in whichever part of the line it is", () => {
  const lines = [
    "# Authorization: Bearer X", "  #X-Api-Key: a", "Bearer abc", "hunter2", "X-User: Bearer abc", "X-User: basic YTpi", "X-User: eyJhbGciOi", "# eyJhbGciOi",
    ...["JWT", "Pwd", "Pass", "My-Cookie", "connect.sid", "X_SID", "PHPSESSID", "Bearer", "X-OTP", "X-Pin", "X-Sig"].map((name) => `${name}: a`),
    "X-Upstream: https://ada:abc@example.org", "X-Id: sk_live_4eC39HqLyjWD", ": abc", "X-Other: a\r# token abc",
  ];
  for (const line of lines) {
    assert.equal(storable(`X-Tenant: a\n${line}`), "", line);
    assert.notEqual(faultOf(line), "", line);
  }
});

test("other headers and comments are stored", () => {
  for (const line of ["X-Tenant: north", "Prefer: count", "# of the side in Spain", "X-Level: basic", "X-Date: 2024-01-01", "X-Accept: application/json", ""]) assert.equal(storable(line), line);
});

test("a line that cannot be sent has a finding, and the other lines are sent", () => {
  const text = "X-A: 1\nno colon\nHost: x\nAccept: */*\nx-a: 2\nBad Name: 1\nX-B: \u4e2d";
  assert.deepEqual(readHeaders(text).headers, { "X-A": "1" });
  assert.deepEqual(readHeaders(text).findings.map((one) => one.line), [2, 3, 4, 5, 6, 7]);
});

test("a browser can send every header that is accepted", () => {
  const { headers } = readHeaders("X-A: ünïcode\nX_B.c~: tab\there\n!#$%&'*+.^_`|~: 1");
  assert.equal([...new Headers(headers)].length, 3);
});
