"""Live queries: answers that are sent again when they have changed."""
