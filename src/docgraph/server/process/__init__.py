"""Processes: the parent, its workers, sockets, TLS, startup and shutdown."""
