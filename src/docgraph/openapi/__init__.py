"""OpenAPI: description of services, apps and cookies, as a document and as an HTML page."""
