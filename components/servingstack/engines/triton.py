"""Triton: the container of a replica, and where its model repository comes from.

Traps, each seen in production:
- `--model-repository` is the *parent* of the models' directories; a URI that ends in a model's name loads
  nothing.
- Each copy of a python model takes 64 MiB of /dev/shm and more with its requests; the default of a container
  is 64 MiB in all.
- Load control is `none`: with `poll` or `explicit`, whoever reaches the port, or the bucket, changes what
  runs.
- A bucket's own config.pbtxt decides. The plan renders each file (`repository_files`), and they belong in the
  bucket; from a volume or from files, the stack mounts them itself.
- Metrics are on a port of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from servingstack.engines import facts
from servingstack.engines.triton_config import Decided, config_message, render
from servingstack.engines.triton_release import IMAGES, UPSTREAM, VERSION, image_for, version_of
from servingstack.engines.triton_rules import repository_violations
from servingstack.engines.triton_settings import (
    DEFAULT_EDGES_MS,
    PYTHON_BACKENDS,
    TritonModel,
    TritonSettings,
)
from servingstack.engines.triton_signals import TritonTables
from servingstack.errors import Violation
from servingstack.plan import Architecture, Batching, Container, EnvVar, Flag, SecretFile, Timeouts, WarmUp

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

HTTP_PORT, GRPC_PORT, METRICS_PORT = 8000, 8001, 8002
"""Triton's own defaults (server r26.08, src/command_line_parser.h)."""
CACHE_PATH = "/cache"
MODELS_PATH = "/models"
CREDENTIALS_PATH = "/etc/triton"
WARM_UP_TIMEOUT_S = 120.0
MIB = 1024 * 1024
SHM_PER_INSTANCE = 64 * MIB
"""Of a python model's copy: 65 MiB in all failed with one, 128 MiB held two (server issue 6195)."""
SHM_GROWTH = 2
"""Regions grow with the requests (python_backend README, shm-growth-byte-size)."""
RESPONSE_CACHE_BYTES = 256 * MIB
CONFIG_MAP_BYTES = 1024 * 1024
"""Kubernetes' limit of a ConfigMap's data."""
STORES = ("s3", "gs", "as")
_SECRET_KEYS = {"s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "as": ("AZURE_STORAGE_KEY",)}
"""docs/user_guide/model_repository.md, cloud storage with environment variables."""
_MANAGED_FLAGS = {
    "model-repository": "model.source",
    "model-store": "model.source",
    "cache-config": "engine.response_cache_size",
    "rate-limit-resource": "engine.rate_limit_resources",
    "backend-config": "engine.backend_config",
    "exit-timeout-secs": "request_timeout",
    "allow-grpc": "engine.grpc",
}
_REFUSED_FLAGS = {
    "model-control-mode": "models are loaded once, at start",
    "load-model": "models are loaded once, at start",
    "repository-poll-secs": "models are loaded once, at start",
    "strict-readiness": "a replica is ready when all its models are",
    "exit-on-error": "a replica with a broken model must not start",
    "disable-auto-complete-config": "the plan renders whole configurations",
    "rate-limit": "it follows the instance groups",
    "allow-metrics": "scaling and alerts need the metrics",
    "allow-http": "probes and the front door need it",
    "allow-client-shm": "it lets a client read other clients' memory",
}
_PORTS = {f"{kind}-{what}" for kind in ("http", "grpc", "metrics") for what in ("port", "address")}
_LADDER = (1, 2, 5)
_JSON_ZERO: dict[str, Any] = {
    "TYPE_BOOL": False,
    "TYPE_FP32": 0.0,
    "TYPE_FP64": 0.0,
    "TYPE_STRING": "warm-up",
}
_BINARY_ONLY = ("TYPE_FP16", "TYPE_BF16")
"""They have no JSON form (docs/protocol/extension_binary_data.md)."""
EnginePaths = tuple[str, ...]


def settings_of(args: ServingStackArgs) -> TritonSettings:
    """The stack's settings, with a model in any case: the one that `model.id` names where none is listed."""
    given = args.engine if isinstance(args.engine, TritonSettings) else TritonSettings(kind="triton")
    if given.models:
        return given
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", args.model.id.rpartition("/")[2])
    return given.model_copy(update={"models": (TritonModel(name=name),)})


def configured(args: ServingStackArgs) -> bool:
    """Whether the input describes the models; else their own config.pbtxt does, and nothing is rendered."""
    return isinstance(args.engine, TritonSettings) and bool(args.engine.models)


def scheme_of(source: str) -> str:
    """`s3`, `gs`, `as`, `files`, `hf`, or that of a volume: `pvc`, `azurefile`."""
    return source.partition("://")[0]


def below_volume(source: str) -> str | None:
    """Directory on the volume that an option mounts, empty for the volume itself; None for a bucket, which
    Triton reads by itself, and for files."""
    scheme, there, rest = source.partition("://")
    return rest.partition("/")[2].strip("/") if there and scheme not in STORES else None


# ---- what is wrong ----------------------------------------------------------------------------------------


def violations(args: ServingStackArgs) -> list[Violation]:
    """Everything that Triton would refuse, or that contradicts the rest of the input."""
    settings = settings_of(args)
    gpus = args.hardware.gpus_per_replica
    rules = repository_violations(settings, 1 if gpus is None else gpus) if configured(args) else []
    return [
        *rules,
        *_planned(args, settings, 1 if gpus is None else gpus),
        *_source(args, settings),
        *_image(settings),
        *_arguments(settings),
    ]


def _planned(args: ServingStackArgs, settings: TritonSettings, gpus: int) -> Iterator[Violation]:
    """A replica has GPUs; the model that they are planned for must use them."""
    model = settings.called(args.model.id)
    if model.ensemble or copies(model, gpus, on_gpu=True):
        return
    path = f"engine.models[{settings.models.index(model)}].instance_group"
    fix = "Add a group of KIND_GPU; other models of the repository may stay on the CPU."
    yield Violation(path, "KIND_CPU", "a group on the GPU, for the model that requests call", fix)


def _source(args: ServingStackArgs, settings: TritonSettings) -> Iterator[Violation]:
    source, scheme = args.model.source, scheme_of(args.model.source)
    last = source.rstrip("/").rpartition("/")[2]
    if scheme == "hf":
        allowed = "a model repository: s3://, gs://, as://, a volume or `files`"
        fix = "Put the repository there; `files` takes it from engine.models[].files."
        yield Violation("model.source", source, allowed, fix)
    if "://" in source and last in [model.name for model in settings.models]:
        fix = "Cut the last part off."
        yield Violation("model.source", source, "the directory that holds the models' directories", fix)
    held = [model for model in settings.models if model.files]
    bare = [model.name for model in settings.models if not model.files and not model.ensemble]
    if scheme == "files" and (bare or not configured(args)):
        fix = f"Give {', '.join(bare)} files, or use a repository."
        yield Violation("engine.models", bare, "models with files, for model.source: files", fix)
    if scheme != "files" and held:
        fix = "Set model.source: files, or remove them."
        yield Violation("engine.models", [model.name for model in held], "no files, for a repository", fix)
    size = sum(len(text.encode()) for model in held for text in model.files.values())
    if size > CONFIG_MAP_BYTES // 2:
        fix = "Put the repository into a bucket or a volume."
        yield Violation("engine.models", f"{size} bytes of files", f"at most {CONFIG_MAP_BYTES // 2}", fix)
    if settings.storage_secret is not None and scheme not in STORES:
        yield Violation(
            "engine.storage_secret", settings.storage_secret, "set for a bucket alone", "Remove it."
        )


def _image(settings: TritonSettings) -> Iterator[Violation]:
    wanted = {model.backend for model in settings.models if model.backend is not None}
    if settings.image is None and image_for(set(wanted)) is None:
        have = "; ".join(f"{image.version}: {', '.join(image.backends)}" for image in IMAGES)
        fix = "Name an image by digest in engine.image, or split the models into two stacks."
        yield Violation("engine.models", sorted(wanted), f"backends of one pinned image ({have})", fix)


def _arguments(settings: TritonSettings) -> Iterator[Violation]:
    known = facts.flags("triton", VERSION)
    for argument in settings.extra_args:
        name = argument.removeprefix("--").partition("=")[0]
        if not argument.startswith("--") or name not in known:
            close = facts.closest(name, list(known))
            allowed = f"a flag of Triton {VERSION}, as one element: --name=value"
            yield Violation("engine.extra_args", argument, allowed, close if close else "Correct it.")
        elif name in _MANAGED_FLAGS:
            yield Violation(
                "engine.extra_args", argument, "flags without a field", f"Use {_MANAGED_FLAGS[name]}."
            )
        elif name in _REFUSED_FLAGS or name in _PORTS:
            why = _REFUSED_FLAGS.get(name, "probes, Service and network policy follow the planned ports")
            yield Violation("engine.extra_args", argument, f"flags that keep the plan: {why}", "Remove it.")
    for name in settings.extra_env:
        if any(word in name.upper() for word in ("SECRET", "TOKEN", "PASSWORD", "STORAGE_KEY", "ACCESS_KEY")):
            fix = "Use engine.storage_secret."
            yield Violation(f"engine.extra_env.{name}", name, "no secrets: this text is stored in clear", fix)


# ---- what is decided elsewhere and read here --------------------------------------------------------------


def engine_image(settings: TritonSettings) -> tuple[str, str | None]:
    """Image reference and its release; None for an own image whose tag names no release."""
    if settings.image is not None:
        return settings.image, version_of(settings.image)
    backends = {model.backend for model in settings.models if model.backend is not None}
    pinned = image_for(set(backends))
    image = UPSTREAM if pinned is None else pinned
    return image.reference, image.version


def copies(model: TritonModel, gpus: int, *, on_gpu: bool = False) -> int:
    """How many instances of a model run in a replica, or on its GPUs alone: `count` is per listed GPU."""
    if model.ensemble:
        return 0
    groups = model.instance_group
    if groups is None:
        return 1 if model.backend == "vllm" else gpus
    wanted = [group for group in groups if not on_gpu or group.kind != "KIND_CPU"]
    return sum(
        group.count * ((len(group.gpus) or gpus) if group.kind == "KIND_GPU" else 1) for group in wanted
    )


def shared_memory(settings: TritonSettings, gpus: int) -> int:
    """/dev/shm that the python models need, bytes."""
    each = (
        SHM_PER_INSTANCE
        if settings.shared_memory_per_instance is None
        else settings.shared_memory_per_instance
    )
    processes = sum(copies(model, gpus) for model in settings.models if model.backend in PYTHON_BACKENDS)
    return SHM_GROWTH * each * processes


def edges_ms(args: ServingStackArgs, model: TritonModel) -> tuple[float, ...]:
    """Edges of a model's latency histogram: as given, or a ladder with the objectives' thresholds in it."""
    if not configured(args):
        return DEFAULT_EDGES_MS
    if model.latency_edges is not None:
        return tuple(edge / timedelta(milliseconds=1) for edge in model.latency_edges)
    last = max(1, round(args.request_s * 1000))
    asked = [getattr(args.slo, f"latency_{name}") for name in ("p50", "p95", "p99")]
    ladder = {float(step * 10**power) for power in range(7) for step in _LADDER}
    edges = {edge for edge in ladder if edge < last} | {float(last)}
    return tuple(sorted(edges | {value / timedelta(milliseconds=1) for value in asked if value is not None}))


def tables(args: ServingStackArgs) -> TritonTables:
    """The stack's signals."""
    settings = settings_of(args)
    served = settings.served()
    every = [set(edges_ms(args, model)) for model in settings.models if model.name in served]
    shared = sorted(set[float].intersection(*every))
    return TritonTables(
        served=served,
        models=tuple(model.name for model in settings.models),
        edges=tuple(edge / 1000 for edge in shared),
        cached=any(model.response_cache for model in settings.models),
    )


# ---- the container ----------------------------------------------------------------------------------------


def container(
    args: ServingStackArgs, architecture: Architecture, batching: Batching, timeouts: Timeouts
) -> Container:
    """The container of one replica, in no cloud's words. Reads decisions, takes none."""
    settings, source = settings_of(args), args.model.source
    configs: dict[str, str] = {}
    if configured(args):
        configs = {f"{model.name}/config.pbtxt": _config(args, model, batching) for model in settings.models}
    mounted, volume = scheme_of(source) not in STORES, below_volume(source)
    image, called = engine_image(settings), settings.called(args.model.id)
    return Container(
        image=image[0],
        command=("tritonserver",),
        flags=tuple(_flags(args, settings, timeouts)),
        env=_environment(args, settings),
        port=HTTP_PORT,
        metrics_port=METRICS_PORT,
        grpc_port=GRPC_PORT if settings.grpc else None,
        metrics_path="/metrics",
        health_path="/v2/health/ready",
        cache_path=CACHE_PATH,
        writable_paths=("/tmp",),
        warm_up=_warm_up(settings, called, batching, architecture.gpus_per_replica),
        public_paths=_public_paths(settings),
        protocol="triton",
        files=_files(settings, configs, source) if mounted and configs else {},
        repository_files={} if mounted else configs,
        model_path=None if configs or volume is None else MODELS_PATH,
        volume_mounts=_mounts(settings, source) if configs else {},
        secret_files=_credentials(settings, source),
    )


def _config(args: ServingStackArgs, model: TritonModel, batching: Batching) -> str:
    decided = Decided(
        max_batch_size=batching.max_num_seqs,
        queue_delay=timedelta(milliseconds=batching.queue_delay_ms),
        edges_ms=edges_ms(args, model),
    )
    return render(config_message(model, decided))


def _files(settings: TritonSettings, configs: dict[str, str], source: str) -> dict[str, str]:
    found = {f"{MODELS_PATH}/{path}": text for path, text in configs.items()}
    for model in settings.models:
        if model.ensemble:  # an ensemble has a version without files, and a version is a directory
            found[f"{MODELS_PATH}/{model.name}/{model.version}/README"] = "The steps are in config.pbtxt.\n"
        if source == "files":
            root = f"{MODELS_PATH}/{model.name}"
            found |= {f"{root}/{path}": text for path, text in model.files.items()}
    return found


def _mounts(settings: TritonSettings, source: str) -> dict[str, str]:
    """Versions from a volume, so that each lies beside its rendered config.pbtxt."""
    root = below_volume(source)
    if root is None:
        return {}
    below = f"{root}/" if root else ""
    return {
        f"{below}{model.name}/{model.version}": f"{MODELS_PATH}/{model.name}/{model.version}"
        for model in settings.models
        if not model.ensemble
    }


def _repository(args: ServingStackArgs) -> str:
    """A bucket by its address; files and versions of a volume where they are mounted; a whole volume by its
    path."""
    source = args.model.source
    if scheme_of(source) in STORES:
        return source
    below = None if configured(args) else below_volume(source)
    return f"{MODELS_PATH}/{below}" if below else MODELS_PATH


def _flags(args: ServingStackArgs, settings: TritonSettings, timeouts: Timeouts) -> Iterator[Flag]:
    yield Flag(name="model-repository", value=_repository(args))
    yield Flag(name="model-control-mode", value="none")
    if configured(args) and not any(model.backend in ("vllm", "tensorrtllm") for model in settings.models):
        yield Flag(name="disable-auto-complete-config")  # the vllm backend completes its own tensors
    yield Flag(name="strict-readiness", value="true")
    yield Flag(name="exit-on-error", value="true")
    yield Flag(name="http-port", value=str(HTTP_PORT))
    yield Flag(name="allow-grpc", value=str(settings.grpc).lower())
    if settings.grpc:
        yield Flag(name="grpc-port", value=str(GRPC_PORT))
    yield Flag(name="metrics-port", value=str(METRICS_PORT))
    yield Flag(name="metrics-config", value="histogram_latencies=true")
    yield Flag(name="allow-client-shm", value="false")
    yield Flag(name="exit-timeout-secs", value=str(timeouts.drain_s))
    if any(model.response_cache for model in settings.models):
        size = RESPONSE_CACHE_BYTES if settings.response_cache_size is None else settings.response_cache_size
        yield Flag(name="cache-config", value=f"local,size={size}")
    groups = [group for model in settings.models for group in model.instance_group or ()]
    if settings.rate_limit_resources or any(row.resources or row.priority is not None for row in groups):
        yield Flag(name="rate-limit", value="execution_count")
    for name, count in settings.rate_limit_resources.items():
        yield Flag(name="rate-limit-resource", value=f"{name}:{count}")
    for backend, pairs in settings.backend_config.items():
        for key, value in pairs.items():
            yield Flag(name="backend-config", value=f"{backend},{key}={value}")
    for argument in settings.extra_args:
        name, has_value, value = argument.removeprefix("--").partition("=")
        yield Flag(name=name, value=value if has_value else None)


def _environment(args: ServingStackArgs, settings: TritonSettings) -> tuple[EnvVar, ...]:
    homes = {"HOME": "", "HF_HOME": "/huggingface", "TRITON_CACHE_DIR": "/triton", "XDG_CACHE_HOME": "/xdg"}
    env = [EnvVar(name=name, value=f"{CACHE_PATH}{below}") for name, below in homes.items()]
    scheme, secret = scheme_of(args.model.source), settings.storage_secret
    if scheme == "as":
        account = args.model.source.removeprefix("as://").partition("/")[0]
        env.append(EnvVar(name="AZURE_STORAGE_ACCOUNT", value=account))
    if scheme == "s3" and settings.storage_region is not None:
        env.append(EnvVar(name="AWS_DEFAULT_REGION", value=settings.storage_region))
    if scheme == "gs" and secret is not None:
        env.append(EnvVar(name="GOOGLE_APPLICATION_CREDENTIALS", value=f"{CREDENTIALS_PATH}/key.json"))
    elif secret is not None:
        keys = _SECRET_KEYS.get(scheme, ())
        env += [EnvVar(name=name, secret_name=secret, secret_key=name) for name in keys]
    env += [EnvVar(name=name, value=value) for name, value in settings.extra_env.items()]
    return tuple(env)


def _credentials(settings: TritonSettings, source: str) -> tuple[SecretFile, ...]:
    """Google's library reads a file; the others read variables."""
    if scheme_of(source) != "gs" or settings.storage_secret is None:
        return ()
    path = f"{CREDENTIALS_PATH}/key.json"
    return (SecretFile(path=path, secret_name=settings.storage_secret, secret_key="key.json"),)


def _public_paths(settings: TritonSettings) -> EnginePaths:
    """Inference, and what a client asks first; repository control, statistics, logging and tracing stay
    closed."""
    found = ["/v2/health/ready", "/v2"]
    for model in settings.models:
        if model.name not in settings.served():
            continue
        root = f"/v2/models/{model.name}"
        streams = model.decoupled or model.backend in ("vllm", "tensorrtllm")
        verbs = ("generate", "generate_stream") if streams else ("infer",)
        found += [root, f"{root}/ready", *(f"{root}/{verb}" for verb in verbs)]
        found += [f"{root}/versions/{model.version}/{verb}" for verb in verbs]
    return tuple(found)


def _warm_up(settings: TritonSettings, called: TritonModel, batching: Batching, gpus: int) -> WarmUp:
    """One request per copy and a few more, since the server chooses which copy takes one."""
    del settings
    root = f"/v2/models/{called.name}"
    if called.backend in ("vllm", "tensorrtllm"):
        body: dict[str, Any] = {"text_input": "Warm-up: why is the sky blue?", "max_tokens": 16}
        return WarmUp(path=f"{root}/generate", body=body, requests=3, timeout_s=WARM_UP_TIMEOUT_S)
    unsayable = any(tensor.data_type in _BINARY_ONLY for tensor in called.input)
    if unsayable or called.sequence_batching is not None or not called.input:
        # Its own `model_warmup` can still warm it; here only its health is asked.
        return WarmUp(path=f"{root}/ready", body={}, requests=0, timeout_s=WARM_UP_TIMEOUT_S)
    most = batching.max_num_seqs if called.max_batch_size is None else called.max_batch_size
    inputs: list[dict[str, Any]] = []
    for tensor in called.input:
        shape = [max(size, 1) for size in tensor.dims]
        count = 1
        for size in shape:
            count *= size
        kind = tensor.data_type.removeprefix("TYPE_")
        zero = _JSON_ZERO.get(tensor.data_type, 0)
        inputs.append(
            {
                "name": tensor.name,
                "shape": [1, *shape] if most >= 1 else shape,
                "datatype": "BYTES" if kind == "STRING" else kind,
                "data": [zero] * count,
            }
        )
    requests = max(3, 2 * copies(called, gpus))
    return WarmUp(
        path=f"{root}/infer", body={"inputs": inputs}, requests=requests, timeout_s=WARM_UP_TIMEOUT_S
    )
