"""The services that tell about the server itself."""
