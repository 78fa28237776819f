"""servingstack: one typed input becomes a planned, provisioned and monitored model-serving stack.

Trap: importing this package imports nothing else; each name loads its module when it is first used. So the
command line starts without Pulumi, a program without the catalog, and a base install without any cloud's SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from servingstack._version import __version__

if TYPE_CHECKING:
    from servingstack.args import (
        AdapterArgs,
        AlertArgs,
        AutoEngine,
        HardwareArgs,
        KubernetesArgs,
        ModelArgs,
        NodeArgs,
        ObservabilityArgs,
        RolloutArgs,
        ScalingArgs,
        SecretKey,
        ServingStackArgs,
        SharingArgs,
        SloArgs,
        TargetArgs,
        TrafficArgs,
    )
    from servingstack.component import ServingStack
    from servingstack.engines.sglang import SglangSettings
    from servingstack.engines.torchserve import TorchServeSettings
    from servingstack.engines.triton_settings import TritonSettings
    from servingstack.engines.vllm import VllmSettings
    from servingstack.errors import Infeasible, InvalidInput, Nearest, Violation
    from servingstack.measured import MeasuredTable
    from servingstack.plan import ServingPlan
    from servingstack.targets.aws.sagemaker.existing import SageMakerExisting
    from servingstack.targets.aws.sagemaker.resources import SageMakerEndpoint
    from servingstack.targets.aws.sagemaker.settings import SageMakerArgs
    from servingstack.targets.azure.container_apps.existing import ContainerAppsExisting
    from servingstack.targets.azure.container_apps.resources import ContainerAppsServing
    from servingstack.targets.azure.container_apps.settings import ContainerAppsArgs
    from servingstack.targets.gcp.cloud_run.existing import CloudRunExisting
    from servingstack.targets.gcp.cloud_run.resources import CloudRunService
    from servingstack.targets.gcp.cloud_run.settings import CloudRunArgs
    from servingstack.targets.kubernetes.existing import KubernetesExisting
    from servingstack.targets.kubernetes.resources import KubernetesServing
    from servingstack.targets.modal.existing import ModalExisting
    from servingstack.targets.modal.resources import ModalApp
    from servingstack.targets.modal.settings import ModalArgs
    from servingstack.targets.replicate.existing import ReplicateExisting
    from servingstack.targets.replicate.resources import ReplicateDeployment
    from servingstack.targets.replicate.settings import ReplicateArgs

_MODULES = {
    "AdapterArgs": "adapter_args",
    "AlertArgs": "args",
    "AutoEngine": "args",
    "CloudRunArgs": "targets.gcp.cloud_run.settings",
    "CloudRunExisting": "targets.gcp.cloud_run.existing",
    "CloudRunService": "targets.gcp.cloud_run.resources",
    "ContainerAppsArgs": "targets.azure.container_apps.settings",
    "ContainerAppsExisting": "targets.azure.container_apps.existing",
    "ContainerAppsServing": "targets.azure.container_apps.resources",
    "HardwareArgs": "args",
    "Infeasible": "errors",
    "InvalidInput": "errors",
    "KubernetesArgs": "args",
    "KubernetesExisting": "targets.kubernetes.existing",
    "KubernetesServing": "targets.kubernetes.resources",
    "MeasuredTable": "measured",
    "ModalApp": "targets.modal.resources",
    "ModalArgs": "targets.modal.settings",
    "ModalExisting": "targets.modal.existing",
    "ModelArgs": "args",
    "Nearest": "errors",
    "NodeArgs": "args",
    "ObservabilityArgs": "args",
    "ReplicateArgs": "targets.replicate.settings",
    "ReplicateDeployment": "targets.replicate.resources",
    "ReplicateExisting": "targets.replicate.existing",
    "RolloutArgs": "args",
    "SageMakerArgs": "targets.aws.sagemaker.settings",
    "SageMakerEndpoint": "targets.aws.sagemaker.resources",
    "SageMakerExisting": "targets.aws.sagemaker.existing",
    "ScalingArgs": "args",
    "SecretKey": "args",
    "ServingPlan": "plan",
    "ServingStack": "component",
    "ServingStackArgs": "args",
    "SharingArgs": "args",
    "SloArgs": "args",
    "TargetArgs": "args",
    "TrafficArgs": "args",
    "Violation": "errors",
    "SglangSettings": "engines.sglang",
    "TorchServeSettings": "engines.torchserve",
    "TritonSettings": "engines.triton_settings",
    "VllmSettings": "engines.vllm",
}
"""Where each public name lives."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "AdapterArgs",
    "AlertArgs",
    "AutoEngine",
    "CloudRunArgs",
    "CloudRunExisting",
    "CloudRunService",
    "ContainerAppsArgs",
    "ContainerAppsExisting",
    "ContainerAppsServing",
    "HardwareArgs",
    "Infeasible",
    "InvalidInput",
    "KubernetesArgs",
    "KubernetesExisting",
    "KubernetesServing",
    "MeasuredTable",
    "ModalApp",
    "ModalArgs",
    "ModalExisting",
    "ModelArgs",
    "Nearest",
    "NodeArgs",
    "ObservabilityArgs",
    "ReplicateArgs",
    "ReplicateDeployment",
    "ReplicateExisting",
    "RolloutArgs",
    "SageMakerArgs",
    "SageMakerEndpoint",
    "SageMakerExisting",
    "ScalingArgs",
    "SecretKey",
    "ServingPlan",
    "ServingStack",
    "ServingStackArgs",
    "SglangSettings",
    "SharingArgs",
    "SloArgs",
    "TargetArgs",
    "TorchServeSettings",
    "TrafficArgs",
    "TritonSettings",
    "Violation",
    "VllmSettings",
    "__version__",
]
