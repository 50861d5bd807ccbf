"""The server: request pipeline, routing, HTTP connections, worker processes."""
