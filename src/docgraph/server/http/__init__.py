"""Bytes and exchanges: the protocol of a connection, framing, limits, WebSockets."""
