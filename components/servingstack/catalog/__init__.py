"""GPUs, instance types, prices and models: dated data, each row with its source, and the sizes that follow
from it.

Plain standard library, read when first asked for. Trap: a price is what was read on its date, and memory is
what the driver reports, not what the product is called; see `records`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .gpu_table import canonical_gpu_id, gpu, gpu_ids, gpus
from .mig_table import MigProfile, mig_fits, mig_gpu_ids, mig_profiles
from .model_table import model, model_ids, models, suggest_models
from .price_table import instance_type, instance_types, price, prices, reference_price, regions
from .records import (
    GIB,
    MIB,
    PRECISIONS,
    Cloud,
    Form,
    Gpu,
    InstanceType,
    Interconnect,
    Model,
    Precision,
    Price,
    ReferencePrice,
    Service,
    Task,
)
from .sizes import kv_bytes_per_token, weight_bits, weight_bytes

if TYPE_CHECKING:
    from .hf_config import model_from_hf_config

__all__ = [
    "GIB",
    "MIB",
    "PRECISIONS",
    "Cloud",
    "Form",
    "Gpu",
    "InstanceType",
    "Interconnect",
    "MigProfile",
    "Model",
    "Precision",
    "Price",
    "ReferencePrice",
    "Service",
    "Task",
    "canonical_gpu_id",
    "gpu",
    "gpu_ids",
    "gpus",
    "instance_type",
    "instance_types",
    "kv_bytes_per_token",
    "mig_fits",
    "mig_gpu_ids",
    "mig_profiles",
    "model",
    "model_from_hf_config",
    "model_ids",
    "models",
    "price",
    "prices",
    "reference_price",
    "regions",
    "suggest_models",
    "weight_bits",
    "weight_bytes",
]


def __getattr__(name: str) -> Any:
    # Only models outside the catalog need the config reader, and it is as much to import as all else here.
    if name == "model_from_hf_config":
        return importlib.import_module(".hf_config", __name__).model_from_hf_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
