"""Network policies: nothing may reach the stack's pods, or be reached by them, but what is listed here.

Traps:
- The engine guards only some of its paths with a key, so nobody but the front door and Prometheus may reach
  it.
- The kubelet's probes come from the node and pass every policy; a policy that lists them would only widen the
  hole.
- Names are resolved at any address: a node-local cache answers at a link-local one, which no selector
  matches.
"""

from __future__ import annotations

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import parts
from servingstack.targets.kubernetes.parts import Body, Manifest, manifest

_NAMESPACE = "kubernetes.io/metadata.name"
"""Label that the API server itself puts on every namespace (Kubernetes 1.22 and later)."""
_INSTANCE_METADATA = {"0.0.0.0/0": "169.254.169.254/32", "::/0": "fd00:ec2::254/128"}
"""Address ranges, and the address in each where clouds hand out a node's credentials."""
_HTTPS = 443


def objects(plan: ServingPlan) -> list[Manifest]:
    """Deny all, then the two ways in."""
    return [deny(plan), engine(plan), door(plan)]


def deny(plan: ServingPlan) -> Manifest:
    """Every pod of the stack, helpers included, is closed in both directions."""
    spec: Body = {
        "podSelector": {"matchLabels": {parts.NAME: plan.labels[parts.NAME]}},
        "policyTypes": ["Ingress", "Egress"],
    }
    metadata = parts.metadata(plan, plan.names["service"], parts.DOOR)
    return manifest("network-deny", "networking.k8s.io/v1", "NetworkPolicy", metadata, spec=spec)


def engine(plan: ServingPlan) -> Manifest:
    """In: the front door and Prometheus. Out: names, and HTTPS for the hub if the weights come from there."""
    component = parts.engine_component(plan)
    door, metrics = {"podSelector": {"matchLabels": parts.selector(plan, parts.DOOR)}}, _monitoring(plan)
    ingress = [{"from": [door, metrics], "ports": _ports(plan.container.port)}]
    if plan.container.metrics_port is not None:
        ingress = [
            {"from": [door], "ports": _ports(plan.container.port)},
            {"from": [metrics], "ports": _ports(plan.container.metrics_port)},
        ]
    egress = [_names()]
    if parts.placement(plan).weights_claim is None or plan.container.downloads:
        egress.append({"to": _outside(), "ports": _ports(_HTTPS)})
    spec = _spec(plan, component, ingress, egress)
    metadata = parts.metadata(plan, plan.names["engine"], component)
    return manifest("network-engine", "networking.k8s.io/v1", "NetworkPolicy", metadata, spec=spec)


def door(plan: ServingPlan) -> Manifest:
    """In: callers, and Prometheus on the metrics port. Out: names, the engine, and an endpoint beside it."""
    settings = parts.front_door(plan)
    namespace = parts.placement(plan).ingress_namespace
    callers = _namespace(namespace) if namespace is not None else {"namespaceSelector": {}}
    ingress = [
        {"from": [callers], "ports": _ports(settings.port)},
        {"from": [_monitoring(plan)], "ports": _ports(settings.stats_port)},
    ]
    replicas = {"podSelector": {"matchLabels": parts.selector(plan, parts.engine_component(plan))}}
    egress = [_names(), {"to": [replicas], "ports": _ports(plan.container.port)}]
    if settings.overflow is not None:
        egress.append({"to": _outside(), "ports": _ports(settings.overflow.port)})
    metadata = parts.metadata(plan, plan.names["door"], parts.DOOR)
    return manifest(
        "network-door",
        "networking.k8s.io/v1",
        "NetworkPolicy",
        metadata,
        spec=_spec(plan, parts.DOOR, ingress, egress),
    )


def _spec(plan: ServingPlan, component: str, ingress: list[Body], egress: list[Body]) -> Body:
    return {
        "podSelector": {"matchLabels": parts.selector(plan, component)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }


def _namespace(name: str) -> Body:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE: name}}}


def _monitoring(plan: ServingPlan) -> Body:
    return _namespace(parts.placement(plan).monitoring_namespace)


def _ports(port: int) -> list[Body]:
    return [{"protocol": "TCP", "port": port}]


def _names() -> Body:
    return {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}


def _outside() -> list[Body]:
    return [{"ipBlock": {"cidr": cidr, "except": [address]}} for cidr, address in _INSTANCE_METADATA.items()]
