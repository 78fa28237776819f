"""The container as SageMaker runs it: AWS's image, told everything by variables, listening on one port.

Traps:
- The engine's container is described anew with this service's limits: thirty seconds after it is asked to
  stop it is killed, so draining must end before that.
- The image's root is small; the instance's own disk is mounted at /tmp, so every cache goes there.
- A variable of a container can be read by whoever may describe the model: no secret is among them.
"""

from __future__ import annotations

import json
from importlib import resources

from servingstack.args import ServingStackArgs
from servingstack.engines.registry import engine_of
from servingstack.engines.vendor_images import VendorImage, as_variables, undeliverable, vendor_image
from servingstack.errors import InvalidInput, Violation
from servingstack.plan import Container, Flag, ServingPlan

from . import facts
from .bodies import server_directory
from .capabilities import CAPABILITIES

SERVER_FILE = "serving_limits.py"
_MIDDLEWARE = "serving_limits.ServingLimits"
CACHE = "/tmp/servingstack"


def image_row(engine: str) -> VendorImage:
    """The image of an engine for this service. ValueError where there is none."""
    found = vendor_image(engine, CAPABILITIES.image_family)
    if found is None:
        raise ValueError(f"{CAPABILITIES.option} has no image of {engine}")
    return found


def container(plan: ServingPlan, args: ServingStackArgs) -> Container:
    """The engine's container with this service's limits, port, paths and disk."""
    kind = engine_of(args, CAPABILITIES.directories)
    given = kind.container(args, plan.architecture, plan.batching, plan.timeouts)
    before = given.cache_path
    env = tuple(
        each.model_copy(update={"value": each.value.replace(before, CACHE, 1)})
        if each.value is not None and (each.value == before or each.value.startswith(f"{before}/"))
        else each
        for each in given.env
    )
    path = f"{server_directory()}/{SERVER_FILE}"
    row = image_row(plan.architecture.engine)
    return given.model_copy(
        update={
            "image": _image(plan, args),
            "command": (),
            "flags": tuple(
                _here(flag, given.health_path) for flag in given.flags if flag.name not in row.own_flags
            ),
            "env": env,
            "port": facts.PORT,
            "metrics_port": None,
            "health_path": facts.PING,
            "cache_path": CACHE,
            "public_paths": (facts.INVOCATIONS, facts.PING),
            "files": {**given.files, path: _server_file()},
        }
    )


def _here(flag: Flag, path: str) -> Flag:
    """A flag that lists paths, with the one that this service asks for."""
    value = flag.value
    if not isinstance(value, str) or path not in value.split(","):
        return flag
    listed = [facts.PING if each == path else each for each in value.split(",")]
    return flag.model_copy(update={"value": ",".join(listed)})


def _server_file() -> str:
    """The text of the limits inside the server."""
    folder = resources.files(__name__.rpartition(".")[0])
    return folder.joinpath(SERVER_FILE).read_text(encoding="utf-8")


def _image(plan: ServingPlan, args: ServingStackArgs) -> str:
    own = getattr(args.engine, "image", None)
    if own is not None:
        return own
    row = image_row(plan.architecture.engine)
    registry = f"{row.account}.dkr.ecr.{plan.architecture.region}.amazonaws.com"
    return f"{registry}/{row.repository}:{row.tag}"


def repository_arn(image: str) -> str:
    """ARN of the repository of an image in a private registry."""
    host, _, rest = image.partition("/")
    account, region = host.split(".")[0], host.split(".")[3]
    name = rest.partition("@")[0].rpartition(":")[0] or rest.partition("@")[0]
    return f"arn:aws:ecr:{region}:{account}:repository/{name}"


def environment(plan: ServingPlan, row: VendorImage) -> dict[str, str]:
    """Everything that the container is told. Raises `InvalidInput` for what it cannot be told."""
    container, limits = plan.container, plan.timeouts
    source = plan.architecture.weights_directory
    model = plan.architecture.model if source is None else source
    flags = (
        Flag(name=row.model_flag, value=model),
        *container.flags,
        Flag(name=row.middleware_flag, value=_MIDDLEWARE),
    )
    settings = {
        "request_s": limits.request_s,
        "stream_s": limits.stream_s,
        "paths": [container.metrics_path],
        "warm_up": container.warm_up.model_dump(mode="json"),
    }
    found = {each.name: each.value for each in container.env if each.value is not None}
    found |= as_variables(row, flags)
    found["PYTHONPATH"] = server_directory()
    found["SERVING_LIMITS"] = json.dumps(settings, separators=(",", ":"))
    sent = (flag for flag in flags if flag.name not in row.own_flags)
    wrong = [
        Violation("engine.extra_args", None, "flags of the release in AWS's image", f"{text}.")
        for text in undeliverable(row, sent)
    ]
    short = f"at most {facts.LONGEST_VARIABLE} characters"
    wrong += [
        Violation(f"engine.extra_env.{name}", value, short, "Shorten it.")
        for name, value in found.items()
        if len(value) > facts.LONGEST_VARIABLE
    ]
    if len(found) > facts.MOST_VARIABLES:
        allowed = f"at most {facts.MOST_VARIABLES} variables and flags together"
        wrong.append(Violation("engine.extra_env", len(found), allowed, "Remove some."))
    if wrong:
        raise InvalidInput(wrong)
    return found
