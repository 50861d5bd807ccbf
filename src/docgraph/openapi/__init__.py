"""The API described: services, apps and cookies as OpenAPI, and as a page for people."""
