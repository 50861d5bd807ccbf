/** Two panes side by side (one above the other on narrow screens) with a handle to move. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

interface SplitterProps {
  label: string;
  first: ComponentChildren;
  second: ComponentChildren;
  /** The share of the first pane at the start, in per cent. */
  share?: number;
}

const least = 15;
const most = 85;
const step = 5;

export function Splitter({ label, first, second, share = 50 }: SplitterProps) {
  const [percent, setPercent] = useState(share);
  const box = useRef<HTMLDivElement>(null);
  const set = (value: number) => setPercent(Math.min(most, Math.max(least, Math.round(value))));
  const drag = (event: PointerEvent) => {
    const handle = event.currentTarget as HTMLElement;
    const bounds = box.current?.getBoundingClientRect();
    if (bounds === undefined || !handle.hasPointerCapture(event.pointerId)) return;
    set(((event.clientX - bounds.left) / bounds.width) * 100);
  };
  const press = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    set(percent + by);
  };
  return (
    <div class="splitter" ref={box}>
      <div class="splitter-pane" style={{ flexBasis: `${percent}%` }}>{first}</div>
      <div
        class="splitter-handle"
        role="separator"
        aria-orientation="vertical"
        aria-label={label}
        aria-valuenow={percent}
        aria-valuemin={least}
        aria-valuemax={most}
        tabIndex={0}
        onKeyDown={press}
        onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
        onPointerMove={drag}
      />
      <div class="splitter-pane" style={{ flexBasis: `${100 - percent}%` }}>{second}</div>
    </div>
  );
}
