/** Positions of the boxes of a diagram: related boxes in adjacent columns, the others below. */

export interface Size {
  readonly id: string;
  readonly height: number;
}

export interface Box extends Size {
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly boxes: ReadonlyMap<string, Box>;
  readonly width: number;
  readonly height: number;
}

export type Link = readonly [from: string, to: string];

export const boxWidth = 210;
const gapX = 70;
const gapY = 22;
const margin = 8;

export function layOut(sizes: readonly Size[], links: readonly Link[]): Layout {
  const neighbours = new Map(sizes.map(({ id }) => [id, new Set<string>()]));
  for (const [from, to] of links) {
    if (from === to || !neighbours.has(from) || !neighbours.has(to)) continue;
    neighbours.get(from)?.add(to);
    neighbours.get(to)?.add(from);
  }
  const groups = findGroups(sizes, neighbours);
  const related = groups.filter((group) => group.length > 1);
  const alone = groups.filter((group) => group.length === 1).flat();
  const columnsAlone = Math.max(2, Math.min(5, Math.ceil(Math.sqrt(sizes.length))));
  const blocks = [...related.map((group) => columnsOf(group, neighbours)), deal(alone, columnsAlone)].filter((block) => block.length > 0);
  return place(blocks, new Map(sizes.map((size) => [size.id, size])));
}

/** What is connected, the largest group first. */
function findGroups(sizes: readonly Size[], neighbours: ReadonlyMap<string, ReadonlySet<string>>): readonly (readonly string[])[] {
  const seen = new Set<string>();
  const groups: string[][] = [];
  for (const { id } of sizes) {
    if (seen.has(id)) continue;
    const group = [id];
    seen.add(id);
    for (const one of group) {
      for (const next of neighbours.get(one) ?? []) {
        if (seen.has(next)) continue;
        seen.add(next);
        group.push(next);
      }
    }
    groups.push(group);
  }
  return groups.sort((one, other) => other.length - one.length);
}

/** Columns by the distance from the box with the most relations; long ones are split. */
function columnsOf(group: readonly string[], neighbours: ReadonlyMap<string, ReadonlySet<string>>): readonly (readonly string[])[] {
  const degree = (id: string) => neighbours.get(id)?.size ?? 0;
  const hub = [...group].sort((one, other) => degree(other) - degree(one))[0] ?? "";
  const most = Math.max(3, Math.ceil(Math.sqrt(group.length)) + 1);
  const columns: string[][] = [];
  const seen = new Set([hub]);
  for (let level = [hub]; level.length > 0; ) {
    for (let from = 0; from < level.length; from += most) columns.push(level.slice(from, from + most));
    const next = new Set(level.flatMap((id) => [...(neighbours.get(id) ?? [])].filter((one) => !seen.has(one))));
    for (const id of next) seen.add(id);
    level = [...next]; // in the order of the boxes that they are related to
  }
  return columns;
}

function deal(ids: readonly string[], count: number): readonly (readonly string[])[] {
  const columns: string[][] = Array.from({ length: Math.min(count, ids.length) }, () => []);
  ids.forEach((id, index) => columns[index % columns.length]?.push(id));
  return columns;
}

function place(blocks: readonly (readonly (readonly string[])[])[], sizes: ReadonlyMap<string, Size>): Layout {
  const boxes = new Map<string, Box>();
  let top = margin;
  let width = 0;
  for (const columns of blocks) {
    const heights = columns.map((column) => column.reduce((sum, id) => sum + (sizes.get(id)?.height ?? 0) + gapY, -gapY));
    const tallest = Math.max(...heights);
    columns.forEach((column, index) => {
      const x = margin + index * (boxWidth + gapX);
      let y = top + (tallest - (heights[index] ?? 0)) / 2;
      for (const id of column) {
        const height = sizes.get(id)?.height ?? 0;
        boxes.set(id, { id, x, y, height });
        y += height + gapY;
      }
      width = Math.max(width, x + boxWidth + margin);
    });
    top += tallest + gapY * 2;
  }
  return { boxes, width, height: Math.max(0, top - gapY * 2) + margin };
}

/** A line from box to box, between the sides that face each other. */
export function drawLink(from: Box, to: Box): string {
  const startY = from.y + from.height / 2;
  const endY = to.y + to.height / 2;
  if (from.x === to.x) {
    const side = from.x + boxWidth;
    return `M${side} ${startY} C${side + gapX / 2} ${startY} ${side + gapX / 2} ${endY} ${side} ${endY}`;
  }
  const isRight = from.x < to.x;
  const startX = isRight ? from.x + boxWidth : from.x;
  const endX = isRight ? to.x : to.x + boxWidth;
  const middle = (startX + endX) / 2;
  return `M${startX} ${startY} C${middle} ${startY} ${middle} ${endY} ${endX} ${endY}`;
}
