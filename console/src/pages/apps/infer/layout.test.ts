import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, type Link, boxWidth, drawLink, layOut } from "./layout.js";

function overlap(one: Box, other: Box): boolean {
  return one.x < other.x + boxWidth && other.x < one.x + boxWidth && one.y < other.y + other.height && other.y < one.y + one.height;
}

test("thirty boxes are all there, do not overlap and fit a page", () => {
  const sizes = Array.from({ length: 30 }, (_, index) => ({ id: `t${index}`, height: 40 + (index % 5) * 18 }));
  const links: Link[] = sizes.slice(1, 25).map(({ id }, index) => [id, `t${index % 4}`]);
  const { boxes, width, height } = layOut(sizes, [...links, ["t3", "t3"], ["t1", "nowhere"]]);
  const all = [...boxes.values()];
  assert.equal(all.length, 30);
  all.forEach((one, index) => all.slice(index + 1).forEach((other) => assert.ok(!overlap(one, other), `${one.id} ${other.id}`)));
  assert.ok(width < 3000 && height < 2000, `${width} ${height}`);
  assert.ok(all.every((one) => one.x >= 0 && one.y >= 0 && one.x + boxWidth <= width && one.y + one.height <= height));
});

test("nothing has no size, and one box is a diagram", () => {
  assert.equal(layOut([], []).boxes.size, 0);
  assert.equal(layOut([{ id: "a", height: 40 }], []).boxes.size, 1);
});

test("related boxes are side by side, and a line leads from side to side", () => {
  const { boxes } = layOut([{ id: "a", height: 40 }, { id: "b", height: 40 }, { id: "c", height: 40 }], [["a", "b"]]);
  const [a, b, c] = ["a", "b", "c"].map((id) => boxes.get(id));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  assert.equal(a.y, b.y);
  assert.ok(c.y > a.y);
  assert.match(drawLink(a, b), new RegExp(`^M${a.x + boxWidth} .* ${b.x} ${b.y + 20}$`));
  assert.match(drawLink(b, a), new RegExp(`^M${b.x} `));
});
