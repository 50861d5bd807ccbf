/** Tab leaves an editor, as it leaves every field; one key makes it indent instead, and back. */

const isMac = /mac|iphone|ipad/i.test(navigator.userAgent);

interface PressedKey {
  readonly code: string;
  readonly ctrlKey: boolean;
  readonly altKey: boolean;
  readonly shiftKey: boolean;
  readonly metaKey: boolean;
}

/** Ctrl-M, or Shift-Option-M on a Mac, where Ctrl-M is a key of the system; Option changes the letter, not the place. */
export function isToggle({ code, ctrlKey, altKey, shiftKey, metaKey }: PressedKey, mac: boolean): boolean {
  return code === "KeyM" && !metaKey && (mac ? altKey && shiftKey && !ctrlKey : ctrlKey && !altKey && !shiftKey);
}

export const toggleTab = {
  name: isMac ? "⇧⌥M" : "Ctrl-M",
  /** As `aria-keyshortcuts` spells it. */
  spelled: isMac ? "Shift+Alt+M" : "Control+M",
  isPressed: (event: PressedKey) => isToggle(event, isMac),
};

export function describeTab(indents: boolean): string {
  return indents ? `Tab indents; ${toggleTab.name} makes it leave` : `Tab leaves the editor; ${toggleTab.name} makes it indent`;
}
