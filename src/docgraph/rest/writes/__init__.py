"""How documents are written: single, patched in memory, by operators; guarded by etags."""
