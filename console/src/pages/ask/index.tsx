/** The page Ask. */

import { useState } from "preact/hooks";
import { Editor } from "../../parts/Editor.js";
import type { PageProps } from "../../shell/pages.js";

export default function AskPage({ rest }: PageProps) {
  const [query, setQuery] = useState("{ __typename }");
  return (
    <div class="page">
      <h1>Ask {rest.join("/")}</h1>
      <Editor label="Query" language="graphql" value={query} onChange={setQuery} />
    </div>
  );
}
