"""Services about the server itself: ping, health checks, metrics, apps."""
