"""Rate limits for callers (throttling): by address, user and role."""
