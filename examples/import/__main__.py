"""Another team's project: two servingstacks on a cluster that a third project made.

`chat` gets a provider of this program and a transform; `drafts` is handed the kubeconfig and makes its own.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from servingstack import KubernetesExisting, ModelArgs, ServingStack, ServingStackArgs, TargetArgs


def owned_by_team(resource: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Write the owner on every Deployment, whoever registers it."""
    if resource.type_ != "kubernetes:apps/v1:Deployment":
        return None
    properties: Any = resource.props
    metadata = properties["metadata"]
    annotations = {**metadata.get("annotations", {}), "example.com/owner": "assistants"}
    changed = {**properties, "metadata": {**metadata, "annotations": annotations}}
    return pulumi.ResourceTransformResult(changed, resource.opts)


def program() -> None:
    """Read the cluster from its own stack, and put two stacks on it."""
    cluster = pulumi.StackReference(pulumi.Config("importing").require("cluster"))
    kubeconfig = cluster.require_output("kubeconfig")
    provider = k8s.Provider("assistants", kubeconfig=kubeconfig, enable_server_side_apply=True)
    nodes = [{"accelerator": "l4", "gpus": 4, "count": 2, "cpu": 47, "memory": "172Gi"}]

    chat = ServingStack(
        "chat",
        {
            "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
            "target": {"option": "kubernetes", "kubernetes": {"namespace": "assistants"}},
            "slo": {"ttft_p95": "2s", "tpot_p95": "80ms"},
            "traffic": {"requests_per_second": 1, "input_tokens": 512, "output_tokens": 128},
            "hardware": {"nodes": nodes},
        },
        pulumi.ResourceOptions(providers=[provider], transforms=[owned_by_team]),
    )
    drafts = ServingStack(
        "drafts",
        ServingStackArgs(
            name="drafts",
            model=ModelArgs(id="Qwen/Qwen2.5-1.5B-Instruct", max_model_len=4096),
            target=TargetArgs.model_validate({"option": "kubernetes", "kubernetes": {"namespace": "drafts"}}),
        ),
        existing=KubernetesExisting(kubeconfig=kubeconfig),
    )
    pulumi.export("chat", chat.endpoint)
    pulumi.export("drafts", drafts.endpoint)


if __name__ == "__main__":
    program()
