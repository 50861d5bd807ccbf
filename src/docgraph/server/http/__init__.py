"""HTTP connections: protocol, framing, limits, WebSockets."""
