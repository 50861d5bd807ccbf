"""Commands of the workbench: `apps infer`, `apps advise`, `access fuzz`."""
