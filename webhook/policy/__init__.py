"""Policies as YAML, and what they resolve to."""
