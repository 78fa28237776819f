"""The shell: a plan's manifests as Pulumi resources. It reads the plan and takes no decision.

Traps:
- The provider waits ten minutes for a Deployment (pulumi-kubernetes' default), and a large model loads
  longer: the time-outs come from the plan.
- Creating is a server-side apply: an object that is there already is taken over, not refused. So several
  stacks may share a namespace; it stays when a stack goes, since what others keep in it (a token's secret)
  would go with it.
- A child's logical name and parent are part of its identity: a change of either needs an alias.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import pulumi

from servingstack.plan import ServingPlan
from servingstack.targets.existing import parse
from servingstack.targets.kubernetes.endpoint import dashboard_url, endpoint
from servingstack.targets.kubernetes.existing import KubernetesExisting
from servingstack.targets.kubernetes.manifests import manifests
from servingstack.targets.kubernetes.overrides import apply
from servingstack.targets.kubernetes.parts import Manifest, placement
from servingstack.targets.kubernetes.requirements import definitions, needed

try:
    import pulumi_kubernetes as k8s
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "target `kubernetes` needs the extra of that name: pip install 'servingstack[kubernetes]'"
    ) from error

TOKEN = "servingstack:kubernetes:KubernetesServing"
"""Never changes: it is in the URN of every child."""
EXAMPLE = '{"kubeconfig": ...}'
PROVIDER_AWAIT_S = 600
"""pulumi-kubernetes' own limit, in seconds (provider/v4 pkg/await/deployment.go,
DefaultDeploymentTimeoutMins)."""
_AWAIT_MARGIN_S = 60
_NEEDS_FIRST = ("namespace",)
_POD_NEEDS = {
    "deployment": ("network-engine", "network-deny", "service-account", "warm-up", "weights"),
    "door": ("network-door", "network-deny", "service-account", "door-config"),
    "prepull": ("network-deny", "service-account"),
    "placeholder": ("network-deny", "service-account", "priority"),
}
"""What must be there before pods start, by role. A scaler waits for nothing: it finds its workload when it
appears."""


def build(
    name: str,
    plan: ServingPlan,
    existing: Mapping[str, Any] | KubernetesExisting | None,
    opts: pulumi.ResourceOptions,
) -> KubernetesServing:
    """What `ServingStack` calls of every option. Raises `InvalidInput`."""
    return KubernetesServing(name, plan, opts, existing=parse(KubernetesExisting, existing, EXAMPLE))


class KubernetesServing(pulumi.ComponentResource):
    """A plan's objects on a cluster that exists. Usable alone with a plan."""

    endpoint: pulumi.Output[dict[str, Any]]
    """How to call it: `url`, `protocol`, `auth`, `invoke_example`, `timeout`."""
    dashboard_url: pulumi.Output[str | None]
    """The dashboard's path below your Grafana, or its whole address where the plan knows that; None without
    one."""

    def __init__(
        self,
        name: str,
        plan: ServingPlan,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: KubernetesExisting | None = None,
    ) -> None:
        """Register every object of `plan`. Raises `InvalidInput` for overrides that are refused."""
        objects = apply(manifests(plan), plan.overrides)
        super().__init__(TOKEN, name, {"namespace": placement(plan).namespace}, opts)
        provider = _provider(self, name, KubernetesExisting() if existing is None else existing)
        if pulumi.runtime.is_dry_run():
            pulumi.info(needed(objects), self)
        for definition in definitions(plan, objects):
            _look_up(f"{name}-requires-{definition}", definition, parent=self, provider=provider)
        children: dict[str, pulumi.Resource] = {}
        for each in objects:
            options = pulumi.ResourceOptions.merge(
                _options(plan, each, children), pulumi.ResourceOptions(parent=self, provider=provider)
            )
            children[each.role] = _register(f"{name}-{each.role}", each, options)
        # Both are known in a preview, and still outputs of what they speak of, so that whoever uses them
        # waits for it.
        self.endpoint = children["service"].urn.apply(lambda _: endpoint(plan))
        self.dashboard_url = pulumi.Output.from_input(dashboard_url(plan))
        self.register_outputs({"endpoint": self.endpoint, "dashboard_url": self.dashboard_url})


def _provider(
    parent: pulumi.Resource, name: str, existing: KubernetesExisting
) -> pulumi.ProviderResource | None:
    """One of our own only if a cluster was handed in; else the one of the options, else the ambient one."""
    if existing.kubeconfig is None and existing.context is None:
        return None
    kubeconfig = None if existing.kubeconfig is None else pulumi.Output.secret(existing.kubeconfig)
    return k8s.Provider(
        f"{name}-cluster",
        kubeconfig=kubeconfig,
        context=existing.context,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,  # those that pods mount are immutable and named by their content
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _look_up(
    name: str, definition: str, *, parent: pulumi.Resource, provider: pulumi.ProviderResource | None
) -> None:
    """Reads a definition that others own; without it, the preview fails and names it."""
    options = pulumi.ResourceOptions(parent=parent, provider=provider)
    k8s.apiextensions.v1.CustomResourceDefinition.get(name, definition, options)


def _options(plan: ServingPlan, each: Manifest, before: dict[str, pulumi.Resource]) -> pulumi.ResourceOptions:
    needs = (*_NEEDS_FIRST, *_POD_NEEDS.get(each.role, ()))
    return pulumi.ResourceOptions(
        depends_on=[before[role] for role in needs if role in before],
        custom_timeouts=timeouts(plan, each),
        ignore_changes=ignored(plan, each),
        retain_on_delete=True if each.role == "namespace" else None,
    )


def _register(name: str, each: Manifest, options: pulumi.ResourceOptions) -> pulumi.Resource:
    content = {key: value for key, value in each.body.items() if key not in ("apiVersion", "kind")}
    constructor = _CLASSES.get((each.api_version, each.kind))
    if constructor is not None:
        return constructor()(name, opts=options, **{_snake(key): value for key, value in content.items()})
    return k8s.apiextensions.CustomResource(
        name, api_version=each.api_version, kind=each.kind, opts=options, **content
    )


def timeouts(plan: ServingPlan, each: Manifest) -> pulumi.CustomTimeouts | None:
    """How long Pulumi waits for the replicas: a rollout replaces them in steps, and each step is a start."""
    if each.role != "deployment":
        return None
    step = max(1, plan.rollout.max_surge + plan.rollout.max_unavailable)
    steps = max(1, math.ceil(plan.scaling.max_replicas / step))
    wait = max(PROVIDER_AWAIT_S, steps * plan.rollout.progress_deadline_s + _AWAIT_MARGIN_S)
    stop = max(PROVIDER_AWAIT_S, plan.timeouts.grace_s + _AWAIT_MARGIN_S)
    return pulumi.CustomTimeouts(create=f"{wait}s", update=f"{wait}s", delete=f"{stop}s")


def ignored(plan: ServingPlan, each: Manifest) -> list[str] | None:
    """What an autoscaler owns. It is absent from the inputs too; this is for what an older deployment left in
    them."""
    return ["spec.replicas"] if each.role == "deployment" and plan.scaling.autoscaled else None


def _snake(name: str) -> str:
    """The SDK's spelling of a top-level property."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found.group(1).lower()}", name)


# Looked up when used: the SDK loads a module at its first use, and a stack needs few of them.
_CLASSES: dict[tuple[str, str], Any] = {
    ("v1", "Namespace"): lambda: k8s.core.v1.Namespace,
    ("v1", "ConfigMap"): lambda: k8s.core.v1.ConfigMap,
    ("v1", "PersistentVolumeClaim"): lambda: k8s.core.v1.PersistentVolumeClaim,
    ("v1", "Service"): lambda: k8s.core.v1.Service,
    ("v1", "ServiceAccount"): lambda: k8s.core.v1.ServiceAccount,
    ("apps/v1", "DaemonSet"): lambda: k8s.apps.v1.DaemonSet,
    ("apps/v1", "Deployment"): lambda: k8s.apps.v1.Deployment,
    ("networking.k8s.io/v1", "NetworkPolicy"): lambda: k8s.networking.v1.NetworkPolicy,
    ("policy/v1", "PodDisruptionBudget"): lambda: k8s.policy.v1.PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): lambda: k8s.scheduling.v1.PriorityClass,
}

__all__ = ["KubernetesServing", "build"]
