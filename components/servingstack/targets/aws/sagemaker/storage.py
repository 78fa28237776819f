"""The role, the log group and the stack's bucket, as data.

The bucket holds what the service copies into the container (the server's limits), captured data, and an
asynchronous endpoint's answers. Nobody reaches it without TLS, nobody from outside the account.

Traps:
- A log group that the service makes by itself keeps everything for ever. So it is made first, with an end.
- Captured data and answers are the user's: a bucket that may hold them stays when the stack goes, and empties
  itself by its own rule.
"""

from __future__ import annotations

from typing import Any

from servingstack.plan import ServingPlan

from .bodies import server_prefix
from .names import hash_of
from .parts import Body, Given, Json, Ref, regional, section, tagged
from .rights import ASYNCHRONOUS, CAPTURED, VERSION, policy, trust

BUCKET_CLOSED = ("bucket-encryption", "bucket-access", "bucket-policy")
"""What is true of the bucket before anything is put into it."""
LOG_DAYS = 30
"""The product's own choice: longer than an objective's window needs, short enough to cost nothing."""
_ROOT = "aws:s3/"


def identity(plan: ServingPlan) -> list[Body]:
    """Where the containers write their logs, and what they may do."""
    group = tagged(plan, {"name": plan.names["log_group"], "retention_in_days": LOG_DAYS})
    found = [Body("log-group", "aws:cloudwatch/logGroup:LogGroup", group)]
    if section(plan).own_role:
        return found
    role: dict[str, Any] = {
        "name": plan.names["role"],
        "description": f"What the containers of {plan.name} may do",
        "assume_role_policy": trust(),
        "tags": dict(plan.labels),
    }
    rights = {"name": "serving", "role": Ref("role", "name"), "policy": policy(plan)}
    return [
        *found,
        Body("role", "aws:iam/role:Role", role),
        Body("role-policy", "aws:iam/rolePolicy:RolePolicy", rights),
    ]


def bucket(plan: ServingPlan) -> list[Body]:
    """The stack's bucket and what is true of it, and the file that goes into the container."""
    chosen = section(plan)
    if not chosen.bucket:
        return []
    users = bool(chosen.data_capture_percent) or chosen.asynchronous is not None
    mine = {"bucket_prefix": f"{plan.names['bucket']}-", "force_destroy": False}
    name = Ref("bucket", "bucket")
    found = [
        Body("bucket", f"{_ROOT}bucket:Bucket", tagged(plan, mine), retain=users),
        _part(plan, "bucket-access", "bucketPublicAccessBlock:BucketPublicAccessBlock", _closed()),
        _part(plan, "bucket-encryption", _ENCRYPTION, {"rules": [_encryption(plan)]}),
        _part(plan, "bucket-policy", "bucketPolicy:BucketPolicy", {"policy": _over_tls()}),
    ]
    if users:
        rules = {"rules": [_expiry(prefix, chosen.expire_days) for prefix in (CAPTURED, ASYNCHRONOUS)]}
        found.append(_part(plan, "bucket-lifecycle", _LIFECYCLE, rules))
    if chosen.server_file is not None:
        path = chosen.server_file
        file = {
            "bucket": name,
            "key": f"{server_prefix(plan)}/{path.rpartition('/')[2]}",
            "content": plan.container.files[path],
            "content_type": "text/x-python",
        }
        token, content = f"{_ROOT}bucketObject:BucketObject", hash_of(server_prefix(plan))
        found.append(Body("server-file", token, regional(plan, file), BUCKET_CLOSED, content=content))
    return found


_ENCRYPTION = (
    "bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"  # since S3 v2 parts
)
_LIFECYCLE = "bucketLifecycleConfiguration:BucketLifecycleConfiguration"


def _part(plan: ServingPlan, role: str, token: str, properties: dict[str, Any]) -> Body:
    return Body(role, f"{_ROOT}{token}", regional(plan, {"bucket": Ref("bucket", "bucket"), **properties}))


def _closed() -> dict[str, bool]:
    return {
        "block_public_acls": True,
        "block_public_policy": True,
        "ignore_public_acls": True,
        "restrict_public_buckets": True,
    }


def _encryption(plan: ServingPlan) -> dict[str, Any]:
    if not section(plan).kms_key:
        return {"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}
    key = {"sse_algorithm": "aws:kms", "kms_master_key_id": Given("kms_key_arn")}
    return {"apply_server_side_encryption_by_default": key, "bucket_key_enabled": True}


def _expiry(prefix: str, days: int) -> dict[str, Any]:
    return {
        "id": prefix,
        "status": "Enabled",
        "filter": {"prefix": f"{prefix}/"},
        "expiration": {"days": days},
        "abort_incomplete_multipart_upload": {"days_after_initiation": 1},
    }


def _over_tls() -> Json:
    everything = [Ref("bucket", "arn"), Ref("bucket", "arn", after="/*")]
    statement = {
        "Sid": "OnlyOverTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": everything,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return Json({"Version": VERSION, "Statement": [statement]})
