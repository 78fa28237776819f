"""Amazon's resources, as `tables.Kind` rows; ForceNew as in terraform-provider-aws, which pulumi-aws
bridges.

The trap: some calls of Amazon's create or overwrite in silence (PutDashboard, PutRolePolicy,
PutScalingPolicy). The rows make all of them unique: two stacks that would take over each other's objects
must fail a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.engine.clouds.tables import Kind, Reference

ACCOUNT = "123456789012"
REGION = "us-east-1"
SETTINGS = {"account": ACCOUNT, "region": REGION}

MODEL = "aws:sagemaker/model:Model"
ENDPOINT_CONFIG = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
ENDPOINT = "aws:sagemaker/endpoint:Endpoint"
NATIVE_ENDPOINT = "aws-native:sagemaker:Endpoint"
SCALING_TARGET = "aws:appautoscaling/target:Target"
SCALING_POLICY = "aws:appautoscaling/policy:Policy"
ROLE = "aws:iam/role:Role"
TOPIC = "aws:sns/topic:Topic"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
COMPOSITE_ALARM = "aws:cloudwatch/compositeAlarm:CompositeAlarm"
KEY = "aws:kms/key:Key"
BUCKET = "aws:s3/bucket:Bucket"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"

_SOURCE = "terraform-provider-aws internal/service/"
_ARN = "arn:aws:{service}:{{region}}:{{account}}:{rest}"
_CONFIG_HOLDS = (
    "SageMaker API DeleteEndpointConfig: 'You must not delete an EndpointConfig in use by an endpoint that "
    "is live'"
)
_ROLE_HOLDS = (
    "IAM API DeleteRole: 'you must delete the items attached to the role manually, or the deletion fails'; "
    "role.go does so only with force_detach_policies"
)


def _arn(service: str, rest: str) -> str:
    return _ARN.format(service=service, rest=rest)


KINDS: dict[str, Kind] = {
    MODEL: Kind(
        # botocore's sagemaker model has no UpdateModel
        source=_SOURCE + "sagemaker/model.go: every field but tags is ForceNew",
        replaces=(
            "containers",
            "enableNetworkIsolation",
            "executionRoleArn",
            "inferenceExecutionConfig",
            "name",
            "primaryContainer",
            "vpcConfig",
            "region",
        ),
        updates=("tags",),
        keeps=("inferenceExecutionConfig", "region"),
        defaults={"primaryContainer.mode": "SingleModel", "containers.mode": "SingleModel"},
        outputs={"arn": _arn("sagemaker", "model/{name}"), "tagsAll": "{tags}", "region": "{region}"},
        auto_name=True,
        references=(Reference("executionRoleArn", ROLE, by="arn"),),
    ),
    ENDPOINT_CONFIG: Kind(
        # botocore's sagemaker model has no UpdateEndpointConfig
        source=_SOURCE + "sagemaker/endpoint_configuration.go: every field but tags is ForceNew",
        replaces=(
            "asyncInferenceConfig",
            "dataCaptureConfig",
            "executionRoleArn",
            "kmsKeyArn",
            "name",
            "namePrefix",
            "productionVariants",
            "region",
            "shadowProductionVariants",
        ),
        updates=("tags",),
        keeps=("namePrefix", "region", "productionVariants.volumeSizeInGb", "productionVariants.variantName"),
        defaults={"productionVariants.initialVariantWeight": 1},
        outputs={
            "arn": _arn("sagemaker", "endpoint-config/{name}"),
            "tagsAll": "{tags}",
            "region": "{region}",
        },
        auto_name=True,
        references=(
            Reference("productionVariants.modelName", MODEL, by="name"),
            Reference("executionRoleArn", ROLE, by="arn"),
            Reference("kmsKeyArn", KEY, by="arn"),
        ),
    ),
    ENDPOINT: Kind(
        source=_SOURCE + "sagemaker/endpoint.go: ForceNew on name and auto_rollback_configuration",
        replaces=("name", "region", "deploymentConfig.autoRollbackConfiguration"),
        updates=("endpointConfigName", "deploymentConfig", "tags"),
        keeps=("region",),
        defaults={"deploymentConfig.blueGreenUpdatePolicy.terminationWaitInSeconds": 0},
        outputs={"arn": _arn("sagemaker", "endpoint/{name}"), "tagsAll": "{tags}", "region": "{region}"},
        auto_name=True,
        references=(
            Reference("endpointConfigName", ENDPOINT_CONFIG, by="name", holds=_CONFIG_HOLDS),
            Reference("deploymentConfig.autoRollbackConfiguration.alarms.alarmName", ALARM, by="name"),
        ),
    ),
    NATIVE_ENDPOINT: Kind(
        source="docs.aws.amazon.com AWSCloudFormation aws-resource-sagemaker-endpoint: EndpointName alone "
        "'Update requires: Replacement'",
        replaces=("endpointName",),
        updates=(
            "deploymentConfig",
            "endpointConfigName",
            "excludeRetainedVariantProperties",
            "retainAllVariantProperties",
            "retainDeploymentConfig",
            "tags",
        ),
        id=_arn("sagemaker", "endpoint/{endpointName}"),
        outputs={"endpointArn": "{id}"},
        name="endpointName",
        auto_name=True,
        unique=("endpointName",),
        references=(
            Reference("endpointConfigName", ENDPOINT_CONFIG, by="name", holds=_CONFIG_HOLDS),
            Reference("deploymentConfig.autoRollbackConfiguration.alarms.alarmName", ALARM, by="name"),
        ),
    ),
    SCALING_TARGET: Kind(
        source=_SOURCE + "appautoscaling/target.go",
        replaces=("resourceId", "scalableDimension", "serviceNamespace", "region"),
        updates=("maxCapacity", "minCapacity", "roleArn", "suspendedState", "tags"),
        keeps=("roleArn", "suspendedState", "region"),
        id="{resourceId}",
        outputs={
            "arn": _arn("application-autoscaling", "scalable-target/{hash}"),
            "tagsAll": "{tags}",
            "region": "{region}",
            "roleArn": "arn:aws:iam::{account}:role/aws-service-role/sagemaker.application-autoscaling."
            "amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint",
        },
        name=None,
        unique=("resourceId", "scalableDimension", "serviceNamespace"),
        references=(
            Reference(
                "resourceId",
                f"{ENDPOINT}|{NATIVE_ENDPOINT}",
                by="name|endpointName",
                within=r"endpoint/([^/]+)/variant/.+",
            ),
        ),
    ),
    SCALING_POLICY: Kind(
        source=_SOURCE + "appautoscaling/policy.go",
        replaces=("name", "resourceId", "scalableDimension", "serviceNamespace", "region"),
        updates=(
            "policyType",
            "predictiveScalingPolicyConfiguration",
            "stepScalingPolicyConfiguration",
            "targetTrackingScalingPolicyConfiguration",
        ),
        keeps=("region",),
        defaults={
            "policyType": "StepScaling",
            "targetTrackingScalingPolicyConfiguration.disableScaleIn": False,
        },
        outputs={
            "arn": _arn("autoscaling", "scalingPolicy:{uuid}"),
            "alarmArns": [],
            "region": "{region}",
        },
        auto_name=True,
        unique=("name", "resourceId", "scalableDimension", "serviceNamespace"),
        references=(Reference("resourceId", SCALING_TARGET, by="id"),),
    ),
    "aws:appautoscaling/scheduledAction:ScheduledAction": Kind(
        source=_SOURCE + "appautoscaling/scheduled_action.go",
        replaces=("name", "resourceId", "scalableDimension", "serviceNamespace", "region"),
        updates=("endTime", "scalableTargetAction", "schedule", "startTime", "timezone"),
        keeps=("region",),
        defaults={"timezone": "UTC"},
        outputs={"arn": _arn("autoscaling", "scheduledAction:{uuid}"), "region": "{region}"},
        auto_name=True,
        id="{name}-{serviceNamespace}-{resourceId}",
        unique=("name", "resourceId", "scalableDimension", "serviceNamespace"),
        references=(Reference("resourceId", SCALING_TARGET, by="id"),),
    ),
    ROLE: Kind(
        source=_SOURCE + "iam/role.go",
        replaces=("name", "namePrefix", "path"),
        updates=(
            "assumeRolePolicy",
            "description",
            "forceDetachPolicies",
            "inlinePolicies",
            "managedPolicyArns",
            "maxSessionDuration",
            "permissionsBoundary",
            "tags",
        ),
        keeps=("namePrefix", "inlinePolicies", "managedPolicyArns"),
        defaults={"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"},
        outputs={
            "arn": "arn:aws:iam::{account}:role{path}{name}",
            "createDate": "2026-11-30T12:00:00Z",
            "uniqueId": "AROA{hash}",
            "tagsAll": "{tags}",
        },
        auto_name=True,
    ),
    "aws:iam/rolePolicy:RolePolicy": Kind(
        source=_SOURCE + "iam/role_policy.go",
        replaces=("name", "namePrefix", "role"),
        updates=("policy",),
        keeps=("namePrefix",),
        id="{role}:{name}",
        auto_name=True,
        unique=("role", "name"),
        references=(Reference("role", ROLE, by="name", holds=_ROLE_HOLDS),),
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Kind(
        source=_SOURCE + "iam/role_policy_attachment.go: both fields are ForceNew, there is no update",
        replaces=("role", "policyArn"),
        id="{role}/{policyArn}",
        name=None,
        unique=("role", "policyArn"),
        references=(Reference("role", ROLE, by="name", holds=_ROLE_HOLDS),),
    ),
    ALARM: Kind(
        source=_SOURCE + "cloudwatch/metric_alarm.go: alarm_name alone is ForceNew",
        replaces=("name", "region"),
        updates=(
            "actionsEnabled",
            "alarmActions",
            "alarmDescription",
            "comparisonOperator",
            "datapointsToAlarm",
            "dimensions",
            "evaluateLowSampleCountPercentiles",
            "evaluationCriteria",
            "evaluationInterval",
            "evaluationPeriods",
            "evaluationWindow",
            "extendedStatistic",
            "insufficientDataActions",
            "metricName",
            "metricQueries",
            "namespace",
            "okActions",
            "period",
            "statistic",
            "tags",
            "threshold",
            "thresholdMetricId",
            "treatMissingData",
            "unit",
            "warmUpConfiguration",
        ),
        keeps=("region", "evaluateLowSampleCountPercentiles"),
        defaults={"actionsEnabled": True, "treatMissingData": "missing"},
        outputs={"arn": _arn("cloudwatch", "alarm:{name}"), "tagsAll": "{tags}", "region": "{region}"},
        auto_name=True,
        references=(Reference("alarmActions", TOPIC, by="arn"), Reference("okActions", TOPIC, by="arn")),
    ),
    COMPOSITE_ALARM: Kind(
        source=_SOURCE + "cloudwatch/composite_alarm.go: alarm_name and actions_enabled are ForceNew",
        replaces=("alarmName", "actionsEnabled", "region"),
        updates=(
            "actionsSuppressor",
            "alarmActions",
            "alarmDescription",
            "alarmRule",
            "insufficientDataActions",
            "okActions",
            "tags",
        ),
        keeps=("region",),
        defaults={"actionsEnabled": True},
        id="{alarmName}",
        outputs={"arn": _arn("cloudwatch", "alarm:{alarmName}"), "tagsAll": "{tags}", "region": "{region}"},
        name="alarmName",
        unique=("alarmName",),
        references=(
            Reference("alarmActions", TOPIC, by="arn"),
            Reference("okActions", TOPIC, by="arn"),
            Reference(
                "alarmRule",
                ALARM,
                by="name",
                within=r"""ALARM\(\s*["']?([^"')]+?)["']?\s*\)""",
                holds="CloudWatch API DeleteAlarms: not while 'there is always still a composite alarm that "
                "depends on that alarm'",
            ),
        ),
    ),
    "aws:cloudwatch/dashboard:Dashboard": Kind(
        source=_SOURCE + "cloudwatch/dashboard.go",
        replaces=("dashboardName", "region"),
        updates=("dashboardBody",),
        keeps=("region",),
        id="{dashboardName}",
        outputs={
            "dashboardArn": "arn:aws:cloudwatch::{account}:dashboard/{dashboardName}",
            "region": "{region}",
        },
        name="dashboardName",
        unique=("dashboardName",),
    ),
}


KINDS |= {
    TOPIC: Kind(
        source=_SOURCE + "sns/topic.go",
        replaces=("name", "namePrefix", "fifoTopic", "region"),
        updates=(
            "applicationFailureFeedbackRoleArn",
            "applicationSuccessFeedbackRoleArn",
            "applicationSuccessFeedbackSampleRate",
            "archivePolicy",
            "contentBasedDeduplication",
            "deliveryPolicy",
            "displayName",
            "fifoThroughputScope",
            "firehoseFailureFeedbackRoleArn",
            "firehoseSuccessFeedbackRoleArn",
            "firehoseSuccessFeedbackSampleRate",
            "httpFailureFeedbackRoleArn",
            "httpSuccessFeedbackRoleArn",
            "httpSuccessFeedbackSampleRate",
            "kmsMasterKeyId",
            "lambdaFailureFeedbackRoleArn",
            "lambdaSuccessFeedbackRoleArn",
            "lambdaSuccessFeedbackSampleRate",
            "maximumMessageSize",
            "policy",
            "signatureVersion",
            "sqsFailureFeedbackRoleArn",
            "sqsSuccessFeedbackRoleArn",
            "sqsSuccessFeedbackSampleRate",
            "tags",
            "tracingConfig",
        ),
        keeps=("namePrefix", "policy", "signatureVersion", "tracingConfig", "fifoThroughputScope", "region"),
        defaults={"fifoTopic": False, "contentBasedDeduplication": False},
        id="arn:aws:sns:{region}:{account}:{name}",
        outputs={
            "arn": "{id}",
            "owner": "{account}",
            "beginningArchiveTime": "",
            "tagsAll": "{tags}",
            "region": "{region}",
        },
        auto_name=True,
    ),
    "aws:sns/topicPolicy:TopicPolicy": Kind(
        source=_SOURCE + "sns/topic_policy.go",
        replaces=("arn", "region"),
        updates=("policy",),
        keeps=("region",),
        id="{arn}",
        outputs={"owner": "{account}", "region": "{region}"},
        name=None,
        unique=("arn",),
        references=(Reference("arn", TOPIC, by="arn"),),
    ),
    "aws:sns/topicSubscription:TopicSubscription": Kind(
        source=_SOURCE + "sns/topic_subscription.go",
        replaces=("endpoint", "protocol", "topic", "region"),
        updates=(
            "confirmationTimeoutInMinutes",
            "deliveryPolicy",
            "endpointAutoConfirms",
            "filterPolicy",
            "filterPolicyScope",
            "rawMessageDelivery",
            "redrivePolicy",
            "replayPolicy",
            "subscriptionRoleArn",
        ),
        keeps=("filterPolicyScope", "region"),
        defaults={
            "confirmationTimeoutInMinutes": 1,
            "endpointAutoConfirms": False,
            "rawMessageDelivery": False,
        },
        id="{topic}:{uuid}",
        outputs={
            "arn": "{id}",
            "ownerId": "{account}",
            "pendingConfirmation": False,
            "confirmationWasAuthenticated": True,
            "region": "{region}",
        },
        name=None,
        unique=("topic", "protocol", "endpoint"),
        references=(Reference("topic", TOPIC, by="arn"),),
    ),
    LOG_GROUP: Kind(
        source=_SOURCE + "logs/group.go",
        replaces=("name", "namePrefix", "logGroupClass", "region"),
        updates=("deletionProtectionEnabled", "kmsKeyId", "retentionInDays", "skipDestroy", "tags"),
        keeps=("namePrefix", "logGroupClass", "deletionProtectionEnabled", "region"),
        defaults={"retentionInDays": 0, "skipDestroy": False},
        outputs={"arn": _arn("logs", "log-group:{name}"), "tagsAll": "{tags}", "region": "{region}"},
        auto_name=True,
    ),
    KEY: Kind(
        source=_SOURCE + "kms/key.go",
        replaces=(
            "customKeyStoreId",
            "customerMasterKeySpec",
            "keyUsage",
            "multiRegion",
            "xksKeyId",
            "region",
        ),
        updates=(
            "bypassPolicyLockoutSafetyCheck",
            "deletionWindowInDays",
            "description",
            "enableKeyRotation",
            "isEnabled",
            "policy",
            "rotationPeriodInDays",
            "tags",
        ),
        keeps=("description", "multiRegion", "policy", "rotationPeriodInDays", "region"),
        defaults={
            "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
            "keyUsage": "ENCRYPT_DECRYPT",
            "isEnabled": True,
            "enableKeyRotation": False,
            "bypassPolicyLockoutSafetyCheck": False,
        },
        id="{uuid}",
        outputs={
            "arn": _arn("kms", "key/{id}"),
            "keyId": "{id}",
            "tagsAll": "{tags}",
            "region": "{region}",
        },
        name=None,
        unique=(),
    ),
}


def _of_bucket(source: str, updates: tuple[str, ...], **more: Any) -> Kind:
    """A part of a bucket that is a resource of its own: one for each bucket."""
    return Kind(
        source=_SOURCE + source,
        replaces=("bucket", "region", *more.pop("replaces", ())),
        updates=updates,
        keeps=("region", *more.pop("keeps", ())),
        id="{bucket}",
        outputs={"region": "{region}"},
        name=None,
        unique=("bucket",),
        references=(Reference("bucket", BUCKET, by="bucket"),),
        **more,
    )


KINDS |= {
    BUCKET: Kind(
        source=_SOURCE
        + "s3/bucket.go: bucket, bucket_prefix, object_lock_enabled and the namespace are ForceNew",
        replaces=("bucket", "bucketNamespace", "bucketPrefix", "objectLockEnabled", "region"),
        updates=(
            "accelerationStatus",
            "acl",
            "corsRules",
            "forceDestroy",
            "grants",
            "lifecycleRules",
            "logging",
            "objectLockConfiguration",
            "policy",
            "replicationConfiguration",
            "requestPayer",
            "serverSideEncryptionConfiguration",
            "tags",
            "versioning",
            "website",
        ),
        keeps=(
            "accelerationStatus",
            "acl",
            "bucketNamespace",
            "bucketPrefix",
            "corsRules",
            "grants",
            "lifecycleRules",
            "logging",
            "objectLockConfiguration",
            "objectLockEnabled",
            "policy",
            "region",
            "replicationConfiguration",
            "requestPayer",
            "serverSideEncryptionConfiguration",
            "versioning",
            "website",
        ),
        defaults={"forceDestroy": False},
        id="{bucket}",
        outputs={
            "arn": "arn:aws:s3:::{bucket}",
            "bucketDomainName": "{bucket}.s3.amazonaws.com",
            "bucketRegionalDomainName": "{bucket}.s3.{region}.amazonaws.com",
            "bucketRegion": "{region}",
            "region": "{region}",
            "tagsAll": "{tags}",
        },
        name="bucket",
        auto_name=True,
        unique=("bucket",),
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": _of_bucket(
        "s3/bucket_public_access_block.go",
        ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets", "skipDestroy"),
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": _of_bucket(
        "s3/bucket_server_side_encryption_configuration.go", ("rules",), replaces=("expectedBucketOwner",)
    ),
    "aws:s3/bucketPolicy:BucketPolicy": _of_bucket("s3/bucket_policy.go", ("policy",)),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": _of_bucket(
        "s3/bucket_lifecycle_configuration.go",
        ("rules", "timeouts", "transitionDefaultMinimumObjectSize"),
        replaces=("expectedBucketOwner",),
        keeps=("transitionDefaultMinimumObjectSize",),
    ),
    "aws:s3/bucketObject:BucketObject": Kind(
        source=_SOURCE + "s3/bucket_object.go: bucket and key are ForceNew",
        replaces=("bucket", "key", "region"),
        updates=(
            "acl",
            "bucketKeyEnabled",
            "cacheControl",
            "content",
            "contentBase64",
            "contentDisposition",
            "contentEncoding",
            "contentLanguage",
            "contentType",
            "etag",
            "forceDestroy",
            "kmsKeyId",
            "metadata",
            "objectLockLegalHoldStatus",
            "objectLockMode",
            "objectLockRetainUntilDate",
            "serverSideEncryption",
            "source",
            "sourceHash",
            "storageClass",
            "tags",
            "websiteRedirect",
        ),
        keeps=(
            "acl",
            "bucketKeyEnabled",
            "contentType",
            "etag",
            "kmsKeyId",
            "serverSideEncryption",
            "storageClass",
            "region",
        ),
        defaults={"forceDestroy": False},
        id="{bucket}/{key}",
        outputs={"arn": "arn:aws:s3:::{bucket}/{key}", "tagsAll": "{tags}", "region": "{region}"},
        name="key",
        unique=("bucket", "key"),
        references=(Reference("bucket", BUCKET, by="bucket"),),
    ),
}

INVOKES: dict[str, Mapping[str, Any]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": {
        "accountId": ACCOUNT,
        "arn": f"arn:aws:iam::{ACCOUNT}:user/test",
        "userId": "AIDATEST",
        "id": ACCOUNT,
    },
    "aws:index/getRegion:getRegion": {
        "name": REGION,
        "region": REGION,
        "id": REGION,
        "description": "US East (N. Virginia)",
        "endpoint": f"ec2.{REGION}.amazonaws.com",
    },
    "aws:index/getPartition:getPartition": {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "id": "aws",
        "reverseDnsPrefix": "com.amazonaws",
    },
}
"""What a program may ask the provider for; anything else fails with its name."""
