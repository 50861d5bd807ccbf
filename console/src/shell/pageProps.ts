/** What every page is given. */

export interface PageProps {
  /** The segments after the page's own, such as the uri of an app. */
  readonly rest: readonly string[];
  /** The text after `#`. */
  readonly hash: string;
}
