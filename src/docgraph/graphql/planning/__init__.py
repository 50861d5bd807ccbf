"""How an operation becomes a plan: collected fields, arguments, relations, projections."""
