"""Facts as YAML, with typed loaders."""
