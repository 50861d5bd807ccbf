/** Counts and times of things that happen again and again, by name. */

/** The ends of the buckets, in seconds; the last one has none. */
export type Bounds = readonly number[];

export interface Tally {
  readonly count: number;
  /** Rejected because of the request: statuses from 400 on. */
  readonly rejected: number;
  /** Failed because of the server: statuses from 500 on, and commands that the database rejected. */
  readonly failed: number;
  /** How many are in each bucket. */
  readonly times: readonly number[];
}

export type Tallies = ReadonlyMap<string, Tally>;

export const nothing: Tally = { count: 0, rejected: 0, failed: 0, times: [] };

export function add(a: Tally, b: Tally, sign = 1): Tally {
  const length = Math.max(a.times.length, b.times.length);
  return {
    count: a.count + sign * b.count,
    rejected: a.rejected + sign * b.rejected,
    failed: a.failed + sign * b.failed,
    times: Array.from({ length }, (_, at) => (a.times[at] ?? 0) + sign * (b.times[at] ?? 0)),
  };
}

/** What has happened between two counts; null where the later one is no continuation of the earlier. */
export function subtract(later: Tallies, earlier: Tallies): Tallies | null {
  const found = new Map<string, Tally>();
  for (const [name, tally] of later) {
    const difference = add(tally, earlier.get(name) ?? nothing, -1);
    if (difference.count < 0) return null;
    if (difference.count > 0 || difference.times.some((one) => one > 0)) found.set(name, difference);
  }
  return found;
}

export function sumByName(all: readonly Tallies[]): Tallies {
  const found = new Map<string, Tally>();
  for (const tallies of all) for (const [name, tally] of tallies) found.set(name, add(found.get(name) ?? nothing, tally));
  return found;
}

export function sum(tallies: Tallies): Tally {
  return [...tallies.values()].reduce((all, one) => add(all, one), nothing);
}

/**
 * Seconds within which that share of them was done; null where there were none, and Infinity where they took longer than any bucket.
 *
 * As Prometheus does it: within a bucket they are taken to lie evenly.
 */
export function quantile({ times }: Tally, share: number, bounds: Bounds): number | null {
  const total = times.reduce((all, one) => all + one, 0);
  if (total <= 0) return null;
  let before = 0;
  for (const [at, count] of times.entries()) {
    if (before + count >= share * total && count > 0) {
      const end = bounds[at];
      if (end === undefined) return Infinity;
      const begin = at === 0 ? 0 : bounds[at - 1]!;
      return begin + (end - begin) * ((share * total - before) / count);
    }
    before += count;
  }
  return Infinity;
}
