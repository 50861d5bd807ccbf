/** What only the root role may do: others see a notice instead. */

import type { ComponentChildren } from "preact";
import { sessionState } from "../../api/session.js";
import { useStore } from "../../api/store.js";
import { Empty } from "../../parts/basic.js";

export function RootOnly({ title, rootRole, children }: { title: string; rootRole: string | null; children: ComponentChildren }) {
  const { login } = useStore(sessionState);
  if (rootRole !== null && (login?.roles ?? []).includes(rootRole)) return <>{children}</>;
  return <Empty title={title}><p>{rootRole === null ? "This server has no root role." : `The root role of this server is ${rootRole}, and you do not have it.`}</p></Empty>;
}
