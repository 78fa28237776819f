"""What is only handed on to Amazon's provider: ids of what exists already.

Trap: each id goes with a decision of the input (`target.sagemaker.vpc`, `kms_key`, ...), which sizes rights
and names. The id without the decision, or the decision without the id, is an error before anything is
registered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pulumi

from servingstack.errors import InvalidInput, Violation
from servingstack.plan import ServingPlan

from .parts import section

_ARN = r"arn:aws[a-z-]*:"
_FORMS = {
    "subnet_ids": (r"subnet-[0-9a-z]+", "a list of ids: [subnet-...]"),
    "security_group_ids": (r"sg-[0-9a-z]+", "a list of ids: [sg-...]"),
    "kms_key_arn": (_ARN + r"kms:[a-z0-9-]+:\d{12}:(key|alias)/.+", "an ARN: arn:aws:kms:...:key/..."),
    "weights_key_arn": (_ARN + r"kms:[a-z0-9-]+:\d{12}:key/.+", "an ARN: arn:aws:kms:...:key/..."),
    "role_arn": (_ARN + r"iam::\d{12}:role/.+", "an ARN: arn:aws:iam::...:role/..."),
    "alarm_topic_arn": (_ARN + r"sns:[a-z0-9-]+:\d{12}:.+", "an ARN: arn:aws:sns:..."),
}
"""What each looks like, as the Service Authorization Reference has it, and in words."""


@dataclass(frozen=True)
class SageMakerExisting:
    """All optional; each goes with its field of `target.sagemaker`."""

    subnet_ids: pulumi.Input[list[str]] | None = None
    """Subnets of the containers, handed on whole; go with `vpc`. Default: none."""
    security_group_ids: pulumi.Input[list[str]] | None = None
    """Security groups of the containers, handed on whole; go with `vpc`. Default: none."""
    kms_key_arn: pulumi.Input[str] | None = None
    """ARN of a key whose policy lets the containers' role use it; goes with `kms_key`. Default: none."""
    weights_key_arn: pulumi.Input[str] | None = None
    """ARN of the key of the weights' bucket, whose policy lets the containers' role decrypt with it; goes
    with `weights_key`. Default: none."""
    role_arn: pulumi.Input[str] | None = None
    """ARN of a role that sagemaker.amazonaws.com may assume; goes with `own_role`. Default: none."""
    alarm_topic_arn: pulumi.Input[str] | None = None
    """ARN of an SNS topic that CloudWatch may publish to; goes with `own_topic`. Default: none."""

    def check(self, plan: ServingPlan) -> None:
        """Raises `InvalidInput` with each id that the plan needs and lacks, or has no use for."""
        if wrong := list(self._wrong(plan)):
            raise InvalidInput(wrong)

    def _wrong(self, plan: ServingPlan) -> Iterator[Violation]:
        chosen = section(plan)
        for names, field, wanted in (
            (("subnet_ids", "security_group_ids"), "vpc", chosen.vpc),
            (("kms_key_arn",), "kms_key", chosen.kms_key),
            (("weights_key_arn",), "weights_key", chosen.weights_key),
            (("role_arn",), "own_role", chosen.own_role),
            (("alarm_topic_arn",), "own_topic", chosen.own_topic),
        ):
            setting = f"target.sagemaker.{field}"
            for name in names:
                given = getattr(self, name) is not None
                if wanted and not given:
                    fix = f"Add it, or leave {setting} out."
                    yield Violation(f"existing.{name}", None, f"an id, since {setting} is set", fix)
                elif given and wanted and not _well_formed(name, getattr(self, name)):
                    shown = f"a {type(getattr(self, name)).__name__} of another form"
                    yield Violation(f"existing.{name}", shown, f"{_FORMS[name][1]}", "Correct it.")
                elif given and not wanted:
                    fix = f"Set {setting}: true, or remove it."
                    yield Violation(f"existing.{name}", "given", f"left out without {setting}", fix)


def _well_formed(name: str, value: Any) -> bool:
    """What is known only when deploying passes."""
    if isinstance(value, pulumi.Output):
        return True
    listed = name in ("subnet_ids", "security_group_ids")
    if not listed:
        return _matches(name, value)
    return isinstance(value, list | tuple) and len(value) > 0 and all(_matches(name, each) for each in value)


def _matches(name: str, value: Any) -> bool:
    known = not isinstance(value, pulumi.Output)
    return not known or (isinstance(value, str) and re.fullmatch(_FORMS[name][0], value) is not None)
