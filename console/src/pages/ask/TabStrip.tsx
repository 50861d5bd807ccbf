/** The tabs of the queries. */

import { useRef } from "preact/hooks";
import { type Draft, mostDrafts, titleOf } from "./workspace.js";

interface TabStripProps {
  drafts: readonly Draft[];
  current: string;
  onSelect: (id: string) => void;
  onClose: (id: string) => void;
  onNew: () => void;
}

export function TabStrip({ drafts, current, onSelect, onClose, onNew }: TabStripProps) {
  const isFull = drafts.length >= mostDrafts;
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const at = drafts.findIndex((one) => one.id === current);
    if (event.key === "Delete") {
      onClose(current);
      return;
    }
    if (by === undefined) return;
    event.preventDefault();
    const next = (at + by + drafts.length) % drafts.length;
    onSelect(drafts[next]!.id);
    list.current?.querySelectorAll<HTMLElement>('[role="tab"]')[next]?.focus();
  };
  return (
    <div class="ask-tabs">
      <div class="ask-tabs-list" role="tablist" aria-label="Queries" ref={list} onKeyDown={move}>
        {drafts.map((draft) => {
          const isCurrent = draft.id === current;
          const title = titleOf(draft);
          return (
            <div key={draft.id} class="ask-tab" data-current={isCurrent} role="presentation">
              <button type="button" role="tab" aria-selected={isCurrent} aria-controls="ask-query" tabIndex={isCurrent ? 0 : -1} onClick={() => onSelect(draft.id)}>
                {title}
              </button>
              {drafts.length > 1 && (
                // Keyboards close with Delete.
                <span class="ask-tab-close" aria-hidden="true" title={`Close ${title}`} onClick={() => onClose(draft.id)}>×</span>
              )}
            </div>
          );
        })}
      </div>
      <button type="button" class="ask-tab-new" aria-label="New query" disabled={isFull} title={isFull ? `There are ${mostDrafts} tabs: close one first` : "New query"} onClick={onNew}>+</button>
    </div>
  );
}
