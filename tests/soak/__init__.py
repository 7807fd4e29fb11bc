"""Two replicas under load, while one thing after the other goes wrong around them. `make soak`."""
