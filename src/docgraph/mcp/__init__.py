"""MCP: agents use the same apps under the same rules, by the Model Context Protocol."""
