"""Packs the archive that the stack serves: python build.py <directory of the store>

Needs `torch` and `torch-model-archiver` (both are in the pytorch/torchserve image). The model is a stand-in
with fixed random weights: put your own TorchScript module in its place.

Trap: numbers in the archive's `model-config.yaml` win over the plan's. This one is what the plan of
`stack.yaml` renders.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = 10
WIDTH = 64


class Model(torch.nn.Module):
    """The mean of the bytes' vectors, then one linear layer."""

    def __init__(self):
        super().__init__()
        self.bytes = torch.nn.EmbeddingBag(257, WIDTH, mode="mean", padding_idx=0)
        self.classes = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.classes(self.bytes(ids))


def build(store):
    """Write classifier.mar into the store, which must exist."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder) / "model.pt"
        torch.jit.script(Model().eval()).save(str(weights))
        archiver = pathlib.Path(sys.executable).with_name("torch-model-archiver")
        options = {
            "model-name": "classifier",
            "version": "1.0",
            "serialized-file": weights,
            "handler": HERE / "handler.py",
            "config-file": HERE / "model-config.yaml",
            "export-path": store,
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        subprocess.run([archiver, *arguments, "--force"], check=True)


if __name__ == "__main__":
    build(pathlib.Path(sys.argv[1]))
