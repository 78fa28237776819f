"""TorchServe's files, rendered: config.properties, model-config.yaml, the logging configuration.

Traps, each read in the release's own source or seen running:
- Every address is 127.0.0.1 unless said otherwise: probes and Services would find nothing.
- Numbers of `models` hold only for the exact name and version of the archive's manifest, and a value of 0
  means "the default", which is 100 ms of delay. The archive's own model-config.yaml wins over both, so an
  archive either leaves these keys out or is packed with the same file (`model_config`).
- Without explicit workers there is one per GPU, or one per core of the *node*, each with a full copy of the
  model. `maxWorkers` is no autoscaling: nothing ever starts more than `minWorkers`.
- Token authorisation guards /ping as well, makes a key per process that nobody else knows, and lets it
  expire after an hour, to be renewed only through the management port. So it is off on purpose: the front
  door checks the API key and its allow-list of paths, the network policy lets nothing else in, and the
  management port is bound to the loopback address.
- The default logging writes five rotating files of up to 5 x 100 MB beside the console, and a line for every
  health check.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from textwrap import dedent

INFERENCE_PORT = 8080
MANAGEMENT_PORT = 8081
METRICS_PORT = 8082
GRPC_INFERENCE_PORT = 7070
GRPC_MANAGEMENT_PORT = 7071
"""TorchServe's own defaults (ConfigManager.getListener, getGRPCPort)."""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""What the front door lets through; TorchServe's own default is 6 553 500 bytes (ConfigManager)."""
JOB_QUEUE = 100
"""TorchServe's default (ConfigManager.getJobQueueSize); a full queue answers 503."""


@dataclass(frozen=True, slots=True)
class Served:
    """One model, with every number decided."""

    name: str
    """As in `/predictions/<name>`."""
    version: str
    """As in the archive's manifest."""
    archive: str
    """File in the store."""
    store: str
    """Directory of archives, in the container."""
    batch_size: int
    max_batch_delay_ms: int
    """How long a request waits for company, at least 1."""
    workers: int
    """Processes in all, each with a copy of the model."""
    gpus: int
    """0 to stay on the CPU."""
    response_timeout_s: int
    """A batch that takes longer costs the worker its life."""
    startup_timeout_s: int
    """For a worker to load the model."""

    def numbers(self) -> dict[str, int]:
        """Under TorchServe's own names, the same in both files (wlm/Model.java)."""
        return {
            "minWorkers": self.workers,
            "maxWorkers": self.workers,
            "batchSize": self.batch_size,
            "maxBatchDelay": self.max_batch_delay_ms,
            "responseTimeout": self.response_timeout_s,
            "startupTimeout": self.startup_timeout_s,
        }


def config_properties(served: Served) -> str:
    """`config.properties`: addresses, what is closed off, and the model with its numbers."""
    model = {"defaultVersion": True, "marName": served.archive, **served.numbers()}
    properties: dict[str, object] = {
        "inference_address": f"http://0.0.0.0:{INFERENCE_PORT}",
        "metrics_address": f"http://0.0.0.0:{METRICS_PORT}",
        "management_address": f"http://127.0.0.1:{MANAGEMENT_PORT}",
        "grpc_inference_address": "127.0.0.1",
        "grpc_inference_port": GRPC_INFERENCE_PORT,
        "grpc_management_address": "127.0.0.1",
        "grpc_management_port": GRPC_MANAGEMENT_PORT,
        "disable_token_authorization": "true",
        # Registering a model is running its code.
        "enable_model_api": "false",
        # A pattern that nothing matches: archives come from the store alone.
        "allowed_urls": "(?!)",
        # Whoever may set a variable could open all of the above again.
        "enable_envvars_config": "false",
        "install_py_dep_per_model": "false",
        "metrics_mode": "prometheus",
        # The GPUs and the node have exporters of their own.
        "disable_system_metrics": "true",
        "number_of_gpu": served.gpus,
        "max_request_size": MAX_BODY_BYTES,
        "max_response_size": MAX_BODY_BYTES,
        "job_queue_size": max(JOB_QUEUE, 2 * served.batch_size * served.workers),
        "default_workers_per_model": served.workers,
        "default_response_timeout": served.response_timeout_s,
        "default_startup_timeout": served.startup_timeout_s,
        "model_store": served.store,
        "load_models": f"{served.name}={served.archive}",
        "models": json.dumps({served.name: {served.version: model}}, separators=(",", ":")),
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def model_config(served: Served) -> str:
    """`model-config.yaml`, to pack into the archive (`torch-model-archiver --config-file`)."""
    return "".join(f"{name}: {value}\n" for name, value in served.numbers().items())


def log_config() -> str:
    """Log4j's configuration: the console alone, without a line per request."""
    return dedent(
        """\
        <?xml version="1.0" encoding="UTF-8"?>
        <Configuration>
          <Appenders>
            <Console name="STDOUT" target="SYSTEM_OUT">
              <PatternLayout pattern="%d{ISO8601} [%-5p] %t %c - %m%n"/>
            </Console>
          </Appenders>
          <Loggers>
            <Logger name="ACCESS_LOG" level="warn"/>
            <Logger name="org.pytorch.serve.wlm" level="warn"/>
            <Logger name="io.netty" level="error"/>
            <Logger name="org.apache" level="off"/>
            <Root level="info">
              <AppenderRef ref="STDOUT"/>
            </Root>
          </Loggers>
        </Configuration>
        """
    )
