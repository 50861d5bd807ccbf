/** What every page is given. */

export interface PageProps {
  /** The segments behind the page's own, such as the uri of an app. */
  readonly rest: readonly string[];
  /** What stands behind `#`. */
  readonly hash: string;
}
