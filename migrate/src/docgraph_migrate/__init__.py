"""docgraph-migrate: migration of RESTHeart installations to docgraph."""
