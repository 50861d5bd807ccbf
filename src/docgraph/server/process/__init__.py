"""Processes: the parent, its workers, their sockets and TLS, how they start and stop."""
