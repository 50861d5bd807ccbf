"""JSON Schema: its store, its checks, its resources."""
