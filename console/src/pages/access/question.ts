/** The question of a link: `#method=GET&path=/notes&role=editor`. */

import { address } from "../../shell/router.js";
import { type Chosen, noneChosen } from "./Whom.js";

export interface Question {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly chosen: Chosen;
}

export function readQuestion(hash: string): Question {
  const told = new URLSearchParams(hash);
  return { method: told.get("method") ?? "GET", path: told.get("path") ?? "", query: told.get("query") ?? "", chosen: readChosen(told) };
}

function readChosen(told: URLSearchParams): Chosen {
  const user = told.get("user");
  if (user !== null) return { ...noneChosen, who: "user", user };
  const roles = told.getAll("role");
  return { ...noneChosen, who: roles.length === 0 && told.has("path") ? "anonymous" : "roles", roles };
}

export function writeQuestion({ method, path, query, chosen: { who, roles, user } }: Question): string {
  const told = new URLSearchParams({ method, path });
  if (query !== "") told.set("query", query);
  if (who === "user") told.set("user", user);
  if (who === "roles") for (const role of roles) told.append("role", role);
  return `${address("access", "why")}#${told.toString()}`;
}
