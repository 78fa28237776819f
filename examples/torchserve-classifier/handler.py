"""A text classifier for TorchServe: one call of `handle` answers a whole batch with one run of the model.

The archive holds `model.pt`, a TorchScript module that takes byte ids `[batch, length]` (0 pads) and gives
one score per class `[batch, classes]`. `build.py` packs it.

Trap: TorchServe gives every request of a batch to one call, and wants one answer for each, in order. A
handler that looks at `data[0]` alone, as many do, answers one request and fails the others.
"""

import pathlib

import torch

MAX_BYTES = 512


class Classifier:
    """What TorchServe loads once per worker (`initialize`) and calls once per batch (`handle`)."""

    def initialize(self, context):
        properties = context.system_properties
        gpu = properties.get("gpu_id")
        on_gpu = torch.cuda.is_available() and gpu is not None
        self.device = torch.device(f"cuda:{gpu}" if on_gpu else "cpu")
        path = pathlib.Path(properties["model_dir"]) / "model.pt"
        self.model = torch.jit.load(str(path), map_location=self.device).eval()

    def handle(self, data, _context):
        texts = [_text(row) for row in data]
        with torch.inference_mode():
            shares = torch.softmax(self.model(_batch(texts).to(self.device)), dim=1)
        return [{"label": int(row.argmax()), "scores": row.tolist()} for row in shares]


def _text(row):
    """The text of one request: `{"text": ...}` as JSON, or plain bytes."""
    body = row.get("data") if row.get("body") is None else row.get("body")
    if isinstance(body, dict):
        body = body["text"]
    return body.decode("utf-8", errors="replace") if isinstance(body, (bytes, bytearray)) else str(body)


def _batch(texts):
    """Byte ids, one row per text, padded to the longest. An empty text is one padding byte."""
    encoded = [[byte + 1 for byte in text.encode()[:MAX_BYTES]] or [0] for text in texts]
    longest = max(len(ids) for ids in encoded)
    return torch.tensor([ids + [0] * (longest - len(ids)) for ids in encoded], dtype=torch.long)
