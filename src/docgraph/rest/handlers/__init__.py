"""One handler for each kind of resource."""
