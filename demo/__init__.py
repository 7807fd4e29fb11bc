"""Samestep at work: `python -m demo` without a cluster, `python -m demo.cluster` on a real control plane."""
