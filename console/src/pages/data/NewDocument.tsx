/** A new document is written. */
import type { Segments } from "../../api/data.js";
import type { Spot } from "./places.js";
export function NewDocument(_: { owner: string | null; segments: Segments; spot: Spot; onStored: () => void; onClose: () => void }) { return null; }
