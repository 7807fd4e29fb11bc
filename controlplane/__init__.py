"""A real Kubernetes control plane on one machine, without containers: for tests, demos and benchmarks only.

`build` makes the programs out of Go modules, `rig` runs them, `nodes` describes fleets to put in front of them.
"""
