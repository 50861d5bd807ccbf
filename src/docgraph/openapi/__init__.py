"""OpenAPI (Swagger): description of services, apps and cookies, as JSON and as an HTML page."""
