"""The role, the log group and the stack's bucket, as data.

One bucket holds what the service copies into the container (the server's limits) and goes with the stack;
where users' data is kept, another holds captured data and an asynchronous endpoint's requests and answers.
Nobody reaches either without TLS, nobody from outside the account.

Traps:
- A log group that the service makes by itself keeps everything for ever. So it is made first, with an end.
- Captured data and answers are the users': their bucket stays when the stack goes or no longer keeps any, and
  empties itself by its own rule. It stays with all that closes it: a bucket alone would stay open and for
  ever.
- A bucket with anything in it cannot be deleted, and what was captured yesterday is in it whatever the plan
  says today. So nothing of the users' is ever in the bucket that goes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from servingstack.plan import ServingPlan

from .bodies import server_prefix
from .names import hash_of
from .parts import Body, Given, Json, Ref, keeps_data, regional, section, tagged
from .rights import ASYNCHRONOUS, CAPTURED, DATA, VERSION, policy, trust

BUCKET_CLOSED = ("bucket-encryption", "bucket-access", "bucket-policy")
"""What is true of a bucket before anything is put into it."""
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
    """The stack's buckets and what is true of them, and the file that goes into the container."""
    chosen = section(plan)
    if not chosen.bucket:
        return []
    found = _closed_bucket(plan, "bucket", plan.names["bucket"])
    if keeps_data(plan):
        found += _data(plan)
    if chosen.server_file is not None:
        path = chosen.server_file
        file = {
            "bucket": Ref("bucket", "bucket"),
            "key": f"{server_prefix(plan)}/{path.rpartition('/')[2]}",
            "content": plan.container.files[path],
            "content_type": "text/x-python",
        }
        token, content = f"{_ROOT}bucketObject:BucketObject", hash_of(server_prefix(plan))
        found.append(Body("server-file", token, regional(plan, file), BUCKET_CLOSED, content=content))
    return found


def _data(plan: ServingPlan) -> list[Body]:
    """The bucket of what users wrote, which outlives the stack together with its rules."""
    days = section(plan).expire_days
    rules = {"rules": [_expiry(prefix, days) for prefix in (CAPTURED, ASYNCHRONOUS)]}
    found = _closed_bucket(plan, DATA, plan.names.get("data_bucket", plan.names["bucket"]))
    found.append(_part(plan, DATA, "lifecycle", _LIFECYCLE, rules))
    return [dataclasses.replace(body, retain=True) for body in found]


_ENCRYPTION = (
    "bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"  # since S3 v2 parts
)
_LIFECYCLE = "bucketLifecycleConfiguration:BucketLifecycleConfiguration"


def _closed_bucket(plan: ServingPlan, role: str, name: str) -> list[Body]:
    mine = {"bucket_prefix": f"{name}-", "force_destroy": False}
    return [
        Body(role, f"{_ROOT}bucket:Bucket", tagged(plan, mine)),
        _part(plan, role, "access", "bucketPublicAccessBlock:BucketPublicAccessBlock", _closed()),
        _part(plan, role, "encryption", _ENCRYPTION, {"rules": [_encryption(plan)]}),
        _part(plan, role, "policy", "bucketPolicy:BucketPolicy", {"policy": _over_tls(role)}),
    ]


def _part(plan: ServingPlan, role: str, part: str, token: str, properties: dict[str, Any]) -> Body:
    where = regional(plan, {"bucket": Ref(role, "bucket"), **properties})
    return Body(f"{role}-{part}", f"{_ROOT}{token}", where)


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


def _over_tls(role: str) -> Json:
    everything = [Ref(role, "arn"), Ref(role, "arn", after="/*")]
    statement = {
        "Sid": "OnlyOverTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": everything,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return Json({"Version": VERSION, "Statement": [statement]})
