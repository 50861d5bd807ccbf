"""Lists: the caller's `where` and `orderBy`, compiled to filters and sorts of MongoDB."""
