"""How documents are written: one or whole, by patch or by operators, guarded by etags."""
