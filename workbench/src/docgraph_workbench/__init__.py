"""docgraph-workbench: infer definitions, advise on apps, and search for leaks."""
