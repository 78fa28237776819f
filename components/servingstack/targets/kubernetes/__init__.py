"""The option `kubernetes`: a stack on a cluster that exists. `manifests` is pure, `resources` registers them.

Trap: importing this package must not import a cloud's SDK, since the planner reads the option's capabilities.
"""
