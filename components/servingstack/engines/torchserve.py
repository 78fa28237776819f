"""TorchServe: its settings, and the container it runs in.

It is no longer maintained and gets no security patches, so it is never chosen, only asked for, and a plan
that has it says so.

Traps, each seen running:
- SIGTERM ends the server at once, and the request in flight is cut off; its launcher passes no signal on. So
  a shell stands before both: it lets a stopping replica go on for the whole drain, and then ends it.
- /ping says "Healthy" while the workers still load, and also when no model could be loaded at all. Only a
  prediction tells; the warm-up sends some.
- A batch that takes longer than the response timeout costs every request in it: the worker is killed, they
  get a 500, and the model is loaded anew.
- The launcher keeps its pid in the temporary directory, and refuses to start beside another's: that
  directory is the container's own, never a volume of several.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from servingstack.engines.torchserve_config import (
    INFERENCE_PORT,
    METRICS_PORT,
    Served,
    config_properties,
    log_config,
)
from servingstack.errors import Violation
from servingstack.fields import Frozen, Whole
from servingstack.plan import Architecture, Batching, Container, EnvVar, Flag, PlanWarning, Timeouts, WarmUp
from servingstack.units import Duration

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

VERSION = "0.12.0"
"""The last release (PyPI, 2024-09)."""
CACHE_PATH = "/cache"
MODEL_PATH = "/models"
CONFIG_PATH = "/etc/torchserve"
TEMP_PATH = "/tmp"
WARM_UP_REQUESTS = 3
"""Per worker: they take from one queue, so each gets some."""
WARM_UP_TIMEOUT_S = 120.0
"""The first one waits in the queue until a worker has loaded the model; 120 s is TorchServe's own startup
timeout."""
TASKS = ("embed", "classify", "other")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64}")
_TAGGED = re.compile(r":v?(\d+\.\d+\.\d+)[^/@]*@sha256:")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_PLANNED_ENV = frozenset({"TEMP", "TMP", "TMPDIR", "LOG_LOCATION", "METRICS_LOCATION", "HOME", "TORCH_HOME"})
_SETTINGS = ConfigDict(frozen=True, extra="forbid", defer_build=True, validate_default=False)

UNMAINTAINED = PlanWarning(
    code="engine-unmaintained",
    path="engine.kind",
    message=(
        f"TorchServe is no longer maintained: no fixes and no security patches are planned, and {VERSION} of "
        "2024 is its last release. It serves here because you asked for it. Plan the move to engine.kind: "
        "triton, which takes the same PyTorch model, and keep this stack private until then."
    ),
)
"""On every plan with this engine. Source: the notice at the top of pytorch.org/serve and its repository."""

_RUN = 'trap "sleep {drain}; exit 0" TERM; torchserve "$@" & wait $!'
"""`wait` ends with the server, so a crash ends the container; a signal runs the trap, and what is in flight
finishes meanwhile."""


class TorchServeSettings(BaseModel):
    """Settings of TorchServe, for a model that is packed as an archive in a store (`model.source`)."""

    model_config = _SETTINGS
    kind: Literal["torchserve"]
    image: str
    """Image by digest; a tag before it tells the release: `pytorch/torchserve:0.12.0-gpu@sha256:...`. No
    default: the images get no patches, so which one to trust is yours to decide."""
    archive: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.mar$")
    """File of the archive in the store: `classifier.mar`."""
    model_name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name in `/predictions/<name>`. Default: the archive's name without its ending."""
    model_version: str = Field(default="1.0", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Version in the archive's manifest (`torch-model-archiver --version`); with another one, TorchServe
    ignores the batch size. Default `1.0`."""
    warm_up: Annotated[Mapping[str, Any], Frozen]
    """JSON body that the model's handler answers: what it takes is known to the handler alone."""
    batch_size: Whole | None = Field(default=None, ge=1, le=100_000)
    """Most requests in one call of the handler. Default: the planner's."""
    max_batch_delay: Duration | None = None
    """How long a request waits for company, at least 1ms. Default: the planner's."""
    workers: Whole = Field(default=1, ge=1, le=1024)
    """Processes per GPU, each with a full copy of the model; the least and the most alike. Default 1."""
    response_timeout: Duration | None = None
    """Longest time of a batch, whole seconds; then its worker is killed. Default: `request_timeout`, after
    which nobody waits for the answer."""
    startup_timeout: Duration | None = None
    """Longest time for a worker to load the model, whole seconds. Default: the stack's startup time."""
    extra_env: Annotated[Mapping[str, str], Frozen] = Field(default_factory=dict[str, str])
    """More environment variables for the handler; no secrets. Default: none."""

    @field_validator("image")
    @classmethod
    def _image_has_a_digest(cls, value: str) -> str:
        if not _IMAGE.fullmatch(value):
            raise ValueError(
                "an image by digest, `pytorch/torchserve:0.12.0-gpu@sha256:<64 hex digits>` | Ask the "
                "registry for it: docker buildx imagetools inspect pytorch/torchserve:0.12.0-gpu"
            )
        return value

    @field_validator("max_batch_delay")
    @classmethod
    def _delay_is_counted_in_milliseconds(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < timedelta(milliseconds=1):
            raise ValueError("a delay of at least 1ms: 0 means 100 ms to TorchServe | Raise it to 1ms.")
        return value

    @field_validator("extra_env")
    @classmethod
    def _variables_are_free(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        wrong = [problem for name in value if (problem := _env_problem(name))]
        if wrong:
            raise ValueError(f"variables that neither the plan nor a secret holds | {'; '.join(wrong)}")
        return value

    @property
    def served_name(self) -> str:
        """Name of the model in the path."""
        return self.archive.removesuffix(".mar") if self.model_name is None else self.model_name


def _env_problem(name: str) -> str | None:
    if not _ENV_NAME.fullmatch(name):
        return f"{name!r} is no name of an environment variable"
    if name in _PLANNED_ENV or name.startswith("TS_"):
        return f"{name} is set by the plan, in config.properties"
    if _SECRET_NAME.search(name):
        return f"{name} looks like a secret, and this text lands in the state in clear"
    return None


def engine_image(settings: TorchServeSettings) -> tuple[str, str | None]:
    """Image reference and its release; None where its tag names none."""
    tagged = _TAGGED.search(settings.image)
    return settings.image, tagged[1] if tagged else None


def warnings(args: ServingStackArgs) -> tuple[PlanWarning, ...]:
    """What a reviewer must know of this choice."""
    return (UNMAINTAINED,) if isinstance(args.engine, TorchServeSettings) else ()


def violations(args: ServingStackArgs) -> list[Violation]:
    """What is wrong between TorchServe's settings and the rest of the input."""
    settings = args.engine
    if not isinstance(settings, TorchServeSettings):
        return []
    found: list[Violation] = []
    if "://" not in args.model.source:
        fix = f"Put {settings.archive} on a volume and name it, as pvc://<claim>/<directory>."
        found.append(Violation("model.source", args.model.source, "a volume with the store of archives", fix))
    if args.model.task not in TASKS:
        fix = "Say what the model does, or use engine.kind: vllm for one that generates."
        allowed = f"{', '.join(TASKS)}: TorchServe answers whole requests and counts no tokens"
        found.append(Violation("model.task", args.model.task, allowed, fix))
    delay, limit = settings.max_batch_delay, args.request_timeout
    if delay is not None and limit is not None and delay >= limit:
        fix = "Shorten the delay: a request would time out while it waits for company."
        allowed = f"below request_timeout, {limit.total_seconds():g}s"
        found.append(Violation("engine.max_batch_delay", f"{delay.total_seconds():g}s", allowed, fix))
    return found


def served(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Served:
    """The model with every number decided: those given, else the planner's. TypeError for another engine."""
    settings = _settings(args)
    gpus, delay = architecture.gpus_per_replica, settings.max_batch_delay
    delay_ms = batching.queue_delay_ms if delay is None else delay / timedelta(milliseconds=1)
    return Served(
        name=settings.served_name,
        version=settings.model_version,
        archive=settings.archive,
        store=_store(args.model.source),
        batch_size=batching.max_num_seqs if settings.batch_size is None else settings.batch_size,
        max_batch_delay_ms=max(1, round(delay_ms)),
        workers=settings.workers * max(1, gpus),
        gpus=gpus,
        response_timeout_s=_seconds(settings.response_timeout, timeouts.request_s),
        startup_timeout_s=_seconds(settings.startup_timeout, timeouts.startup_s),
    )


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    settings = _settings(args)
    model = served(args, architecture, batching, timeouts)
    path = f"/predictions/{model.name}"
    return Container(
        image=settings.image,
        command=("sh", "-c", _RUN.format(drain=timeouts.drain_s), "torchserve"),
        flags=(
            Flag(name="start"),
            Flag(name="foreground"),
            # A snapshot of an earlier start would win over the configuration.
            Flag(name="no-config-snapshots"),
            Flag(name="ts-config", value=f"{CONFIG_PATH}/config.properties"),
            Flag(name="log-config", value=f"{CONFIG_PATH}/log4j2.xml"),
        ),
        env=_environment(settings),
        port=INFERENCE_PORT,
        metrics_port=METRICS_PORT,
        metrics_path="/metrics",
        health_path="/ping",
        cache_path=CACHE_PATH,
        model_path=MODEL_PATH,
        writable_paths=(TEMP_PATH,),
        files={
            f"{CONFIG_PATH}/config.properties": config_properties(model),
            f"{CONFIG_PATH}/log4j2.xml": log_config(),
        },
        warm_up=WarmUp(
            path=path,
            body=dict(settings.warm_up),
            requests=WARM_UP_REQUESTS * model.workers,
            timeout_s=WARM_UP_TIMEOUT_S,
        ),
        public_paths=(path, "/ping"),
        protocol="torchserve",
    )


def _settings(args: ServingStackArgs) -> TorchServeSettings:
    if not isinstance(args.engine, TorchServeSettings):
        raise TypeError("TorchServe is never chosen by itself: it has no default settings")
    return args.engine


def _seconds(given: timedelta | None, planned: int) -> int:
    return planned if given is None else math.ceil(given.total_seconds())


def _store(source: str) -> str:
    """Directory of the archives in the container, for a volume and a path on it (`pvc://claim/path`)."""
    path = source.partition("://")[2].partition("/")[2].strip("/")
    return f"{MODEL_PATH}/{path}" if path else MODEL_PATH


def _environment(settings: TorchServeSettings) -> tuple[EnvVar, ...]:
    planned = {
        # Archives are unpacked here, worker sockets lie here, and the root file system is read only.
        "TEMP": TEMP_PATH,
        "LOG_LOCATION": f"{TEMP_PATH}/logs",
        "METRICS_LOCATION": f"{TEMP_PATH}/logs",
        "HOME": CACHE_PATH,
        "TORCH_HOME": f"{CACHE_PATH}/torch",
    }
    return tuple(EnvVar(name=name, value=value) for name, value in {**planned, **settings.extra_env}.items())
