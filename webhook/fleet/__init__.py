"""Nodes to fleet, and Kubernetes' own rules of who may land where."""
