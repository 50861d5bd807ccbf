"""Plans: from the text of an operation to a tree of fetches."""
