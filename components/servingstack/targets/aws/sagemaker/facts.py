"""What SageMaker fixes: limits and names. Each with its source.

"botocore" stands for the service's own model in botocore 1.43, which the tests ask for each of these; "dg"
for docs.aws.amazon.com/sagemaker/latest/dg.

Trap: limits of one service are spread over its API model, its guide and its provider; where they differ, the
tightest counts.
"""

from __future__ import annotations

NAME_LENGTH = 63
"""Longest name of a model, an endpoint configuration, an endpoint, a variant (botocore)."""
ROLE_NAME_LENGTH = 64
"""Longest name of a role (botocore, iam CreateRole.RoleName)."""
ALARM_NAME_LENGTH = 255
"""Longest name of an alarm (botocore, cloudwatch PutMetricAlarm.AlarmName)."""

INVOCATION_S = 60
"""Real-time: "must respond to requests within 60 seconds" (botocore, sagemaker-runtime InvokeEndpoint)."""
STREAM_S = 480
"""Real-time: longest stream. The service ends longer ones with ModelInvocationTimeExceeded."""
LONGEST_ASYNC_S, LONGEST_TTL_S = 3600, 21600
"""Asynchronous: longest InvocationTimeoutSeconds and RequestTTLSeconds (botocore, sagemaker-runtime
InvokeEndpointAsync)."""
SHORTEST_TTL_S = 60
STOP_S = 30
"""From SIGTERM to SIGKILL (dg/your-algorithms-inference-code)."""
TIMEOUT_S = (60, 3600)
"""ContainerStartupHealthCheckTimeoutInSeconds and ModelDataDownloadTimeoutInSeconds (botocore)."""
MOST_VARIABLES, LONGEST_VARIABLE = 100, 1024
"""Environment of a container: entries, and characters of a value (botocore)."""
MOST_TAGS = 50
"""Tags of a resource (botocore, TagList)."""
LONGEST_URI = 1024
"""S3Uri of a model's data (botocore)."""
MOST_IN_FLIGHT = 1000
"""MaxConcurrentInvocationsPerInstance of an asynchronous endpoint (botocore)."""
BAKE_S = (0, 3600)
"""WaitIntervalInSeconds and TerminationWaitInSeconds of a deployment (botocore)."""
EXECUTION_S = (600, 28800)
"""MaximumExecutionTimeoutInSeconds of a deployment (botocore)."""

PORT, PING, INVOCATIONS = 8080, "/ping", "/invocations"
"""What a container must serve (dg/your-algorithms-inference-code)."""
MODEL_DIRECTORY = "/opt/ml/model"
"""Where model data is copied to (dg/your-algorithms-inference-code)."""
CHANNELS_DIRECTORY = "/opt/ml/additional-model-data-sources"
"""Where additional model data is copied to, below the channel's name
(docs.aws.amazon.com/sagemaker/latest/APIReference/API_AdditionalModelDataSource)."""

SCALABLE_NAMESPACE = "sagemaker"
VARIANT_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
IN_FLIGHT_PER_MODEL = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
"""Predefined metrics and dimensions (botocore, application-autoscaling MetricType, ScalableDimension)."""

NAMESPACE = "AWS/SageMaker"
"""Invocations, errors, latencies, backlog (dg/monitoring-cloudwatch)."""
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"
"""Utilisation of instances, GPUs among it (dg/monitoring-cloudwatch)."""
BACKLOG = "backlog_per_instance"
"""Id of the signal that an asynchronous endpoint scales on: what waits and what is in work."""
