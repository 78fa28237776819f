"""Resources of services that have no Pulumi provider: Modal's apps, Replicate's deployments.

They are Pulumi's dynamic resources. A provider class is kept in the state as a reference to its module and
its name, never as code: both stay where they are for good, and a golden test holds that. What a class needs
is looked up when it runs, so an instance has no attributes, and no token can end up in it.

Traps:
- The engine starts one process for all of them, with the environment of `pulumi`, and an instance is
  unpickled there: nothing that a program set is visible.
- A dynamic resource of Python cannot be imported with `pulumi import`, and not be used from another language
  unless that program brings this package along. To take over what exists, each has `adopt`.
"""
