"""May they: vetoers, allowers, permission rules."""
