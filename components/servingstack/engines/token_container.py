"""What the containers of all engines have in common that batch token by token and speak OpenAI's protocol.

Trap: a path that an API key does not guard is open to whoever reaches the pod. Only the paths named here pass
the front door; the engines have many more that change or stop the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from servingstack.engines.token_settings import TokenSettings
from servingstack.errors import Violation
from servingstack.plan import Architecture, EnvVar, Flag, WarmUp

if TYPE_CHECKING:
    from servingstack.args import ServingStackArgs

CACHE_PATH = "/cache"
MODEL_PATH = "/models"
WARM_UP_REQUESTS = 3
"""Enough to compile what is compiled lazily: the first of each kind pays, the last proves it."""
WARM_UP_TIMEOUT_S = 120.0
WARM_UP_PROMPT = "Warm-up: say in one sentence why the sky is blue."
WARM_UP_TOKENS = 16
SHORTEST_CONTEXT = len(WARM_UP_PROMPT) + 2 + WARM_UP_TOKENS
"""Shortest max_model_len that holds a warm-up request, were each letter a token, with a beginning and an end
about them: an engine answers a longer one with 400, and the replica would never be ready."""

# Of vLLM's routes /invocations, /tokenize, /pooling, /abort_requests and the like stay closed, since
# --api-key guards only /v1, /v2, /inference and /cohere (serve/middleware/authenticate.py); of SGLang's
# /flush_cache, /update_weights_from_disk, /pause_generation, /abort_request and the like.
PUBLIC_PATHS = {
    "generate": ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", "/health"),
    "embed": ("/v1/embeddings", "/v1/models", "/health"),
    "classify": ("/classify", "/v1/models", "/health"),
}


def code_violations(args: ServingStackArgs, settings: TokenSettings) -> list[Violation]:
    """Code from a repository runs only at a commit that somebody has read."""
    if not settings.trust_remote_code or args.model.revision:
        return []
    fix = "Set model.revision to the commit whose code you have read."
    return [Violation("engine.trust_remote_code", True, "true only with model.revision", fix)]


def weight_flags(architecture: Architecture, settings: TokenSettings) -> list[Flag]:
    """How weights are read and cast."""
    flags = [Flag(name="dtype", value=architecture.dtype)]
    if architecture.quantization is not None:
        flags.append(Flag(name="quantization", value=architecture.quantization))
    if settings.load_format is not None:
        flags.append(Flag(name="load-format", value=settings.load_format))
    if settings.trust_remote_code:
        flags.append(Flag(name="trust-remote-code"))
    return flags


def extra_flags(settings: TokenSettings) -> list[Flag]:
    """The user's own, last."""
    return [Flag(name=name, value=value) for name, value in settings.extras.flags(settings.extra_args)]


def environment(
    args: ServingStackArgs, settings: TokenSettings, volume: str | None, own: Mapping[str, str]
) -> tuple[EnvVar, ...]:
    """Caches, the engine's own variables, secrets by reference, and the user's."""
    planned = {**dict(settings.extras.caches(CACHE_PATH)), **own}
    env = [EnvVar(name=name, value=value) for name, value in planned.items()]
    if volume is not None:
        # A mounted snapshot is complete; asking the hub would hang where there is no way out.
        env.append(EnvVar(name="HF_HUB_OFFLINE", value="1"))
    elif args.model.token_secret is not None:
        secret = args.model.token_secret
        env.append(EnvVar(name="HF_TOKEN", secret_name=secret.name, secret_key=secret.key))
    if settings.api_key_variable is not None and args.api_key_secret is not None:
        secret = args.api_key_secret
        env.append(EnvVar(name=settings.api_key_variable, secret_name=secret.name, secret_key=secret.key))
    env += [EnvVar(name=name, value=value) for name, value in settings.extra_env.items()]
    return tuple(env)


def public_paths(task: str) -> tuple[str, ...]:
    """Paths that serve a task."""
    return PUBLIC_PATHS.get(task, PUBLIC_PATHS["generate"])


def warm_up(architecture: Architecture) -> WarmUp:
    """Requests of the served model, before a replica takes traffic."""
    model = architecture.model
    path, body = (
        "/v1/completions",
        {"model": model, "prompt": WARM_UP_PROMPT, "max_tokens": WARM_UP_TOKENS, "temperature": 0},
    )
    if architecture.task == "embed":
        path, body = "/v1/embeddings", {"model": model, "input": WARM_UP_PROMPT}
    elif architecture.task == "classify":
        path, body = "/classify", {"model": model, "input": WARM_UP_PROMPT}
    return WarmUp(path=path, body=body, requests=WARM_UP_REQUESTS, timeout_s=WARM_UP_TIMEOUT_S)
