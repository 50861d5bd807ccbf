"""Document writes: single, patched in memory, by operators; guarded by etags."""
