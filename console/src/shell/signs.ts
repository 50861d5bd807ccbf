/** The signs of the pages in the rail: lines in a square of 20. */

export const signs: Readonly<Record<string, string>> = {
  apps: "M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM11 11h6v6h-6z",
  ask: "M3 4h14v12H3zM6 8l2.5 2L6 12M10 12.5h4",
  data: "M3 5c0-3 14-3 14 0v10c0 3-14 3-14 0zM3 5c0 3 14 3 14 0M3 10c0 3 14 3 14 0",
  access: "M4.5 9h11v8h-11zM7 9V6.5a3 3 0 0 1 6 0V9M10 12v2",
  live: "M2 10h4l2.5-6 3 12L14 10h4",
  status: "M4 17v-6M10 17V3M16 17V8M2 17h16",
};
