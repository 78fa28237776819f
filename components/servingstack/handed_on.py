"""Fields of `existing`, by option: what a document may hand on to a deployment.

Trap: each option's own `Existing` imports Pulumi, and reading a document must not. So the names stand here
again, and a test holds them to those classes.
"""

from __future__ import annotations

EXISTING: dict[str, dict[str, str]] = {
    "kubernetes": {
        "kubeconfig": "Content or path of a kubeconfig. Default: the ambient one.",
        "context": "Context in it. Default: its current one.",
    },
    "cloud-run": {
        "project": "Project id. Default: the provider's.",
        "network": "VPC network that traffic leaves through. Default: none.",
        "subnetwork": "Subnetwork of it, in the service's region. Default: the one with the network's name.",
        "notification_channels": "Full names of the channels that hear of every alert. Default: none.",
    },
    "sagemaker": {
        "subnet_ids": "Subnets of the containers. Default: none.",
        "security_group_ids": "Security groups of the containers. Default: none.",
        "kms_key_arn": "ARN of the key for disks and answers. Default: none.",
        "weights_key_arn": "ARN of the key that the weights' bucket is encrypted with. Default: none.",
        "role_arn": "ARN of the containers' role. Default: the stack makes one.",
        "alarm_topic_arn": "ARN of the topic that alarms go to. Default: the stack makes one.",
    },
    "container-apps": {
        "environment_id": "Id of a Container Apps environment. Default: the stack makes one.",
        "workspace_id": "Id of a Log Analytics workspace. Default: the stack makes one.",
        "subnet_id": "Id of a subnet for the stack's environment. Default: none.",
        "registry_id": "Id of the container registry. Default: none.",
        "key_vault_id": "Id of the key vault. Default: none.",
        "action_group_id": "Id of an action group. Default: the stack makes one.",
    },
    "modal": {},
    "replicate": {},
}
"""Which of them its own stack takes, each option checks itself."""
FIELDS = {name: words for fields in EXISTING.values() for name, words in fields.items()}
"""Of every option."""

__all__ = ["EXISTING", "FIELDS"]
