"""The documentation. `generate` writes the part of it that comes from the code."""
