/** The errors of an answer, each with a link to its position. */

import type { GraphqlError } from "../../api/graphql.js";
import { Button } from "../../parts/basic.js";

interface ErrorsProps {
  errors: readonly GraphqlError[];
  onPlace: (line: number, column: number) => void;
  onPath?: (path: readonly (string | number)[]) => void;
}

const mostShown = 100; // the server reports 21 at most; a proxy may report more
const longestMessage = 2000;

export function Errors({ errors, onPlace, onPath }: ErrorsProps) {
  if (errors.length === 0) return null;
  return (
    <section class="errors" aria-label="Errors">
      <h3>{errors.length === 1 ? "1 error" : `${errors.length} errors`}</h3>
      <ul>
        {errors.slice(0, mostShown).map(({ message, code, hint, locations, path }, index) => (
          <li key={index}>
            <p class="errors-message">{message.slice(0, longestMessage)}</p>
            {hint !== null && <p class="soft">{hint}</p>}
            <div class="errors-where">
              {code !== null && <code class="chip">{code}</code>}
              {locations.slice(0, 5).map(({ line, column }) => (
                <Button key={`${line}:${column}`} kind="quiet" onClick={() => onPlace(line, column)}>line {line}, column {column}</Button>
              ))}
              {path !== null && onPath && (
                <Button kind="quiet" onClick={() => onPath(path)}>{describePath(path)}</Button>
              )}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function describePath(path: readonly (string | number)[]): string {
  return path.map((step, index) => (typeof step === "number" ? `[${step}]` : index === 0 ? step : `.${step}`)).join("");
}
