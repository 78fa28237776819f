"""What SageMaker's hosting can do for a stack.

Trap: two modes share one option. What only the asynchronous one can do (zero instances, an hour for a
request) is granted here and refused by `planning.violations` for the other, with the mode's name.
"""

from __future__ import annotations

from servingstack.targets.capabilities import Capabilities, Directory, StartFacts

from .facts import LONGEST_ASYNC_S, LONGEST_TTL_S, MODEL_DIRECTORY

CAPABILITIES = Capabilities(
    option="sagemaker",
    cloud="aws",
    service="sagemaker-hosting",
    # Callers are authorised one by one, by IAM; nothing else can be reached.
    exposures=("private",),
    spot=False,  # no such field in a production variant (botocore, ProductionVariant)
    scale_to_zero=True,
    longest_hold_s=LONGEST_TTL_S,
    queue_metric="in_flight",
    scales_on="in_flight",
    timeout_enforced_by="the model server itself (serving limits), before the service's 60 s",
    timeout_kind="set",
    longest_request_s=LONGEST_ASYNC_S,
    door=None,
    on_kubernetes=False,
    replica_is_machine=True,
    # The service's own agent and the log router take their part of a machine; nothing is published about it.
    container_share=(1.0, 0.95),
    image_family="sagemaker",
    surge="fleet",
    start=StartFacts(
        machine_s=300.0,
        image_s=120.0,
        weights_bytes_per_s=None,
        source=(
            "an estimate: users report GPU endpoints in service 5 to 10 minutes after they were asked for, "
            "the pull of the image included; AWS publishes no figure"
        ),
    ),
    directories={"s3": Directory(MODEL_DIRECTORY)},
)
