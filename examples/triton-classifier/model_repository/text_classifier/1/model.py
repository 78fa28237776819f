"""Ten scores per text, by a model that is loaded once per copy and runs whole batches.

Without weights beside it (`model.pt`, a TorchScript module from token ids to ten logits) it scores by hashed
words, so that the repository can be tried as it stands.

Trap: `execute` gets the requests of one batch, each with a batch dimension of its own: they are joined for
the model and cut apart for the answers, one response per request, in order.
"""

import json
import pathlib
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

WORDS = 30_522
"""Rows of the embedding, as in BERT's uncased vocabulary."""
LENGTH = 128


class TritonPythonModel:
    """What the Python backend looks for."""

    def initialize(self, args):
        """Called once per copy. `args` are strings: the configuration as JSON, the copy's device, its
        kind."""
        config = json.loads(args["model_config"])
        output = pb_utils.get_output_config_by_name(config, "SCORES")
        self.labels = int(output["dims"][0])
        self.dtype = pb_utils.triton_string_to_numpy(output["data_type"])
        gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if gpu else "cpu"
        weights = pathlib.Path(__file__).parent / "model.pt"
        self.module = self._load(weights) if weights.exists() else None

    def _load(self, weights):
        import torch

        module = torch.jit.load(str(weights), map_location=self.device)
        module.eval()
        return module

    def execute(self, requests):
        """One response per request, whatever the number of texts in each."""
        texts = [self._texts(request) for request in requests]
        scores = self._scores([text for part in texts for text in part])
        responses, start = [], 0
        for part in texts:
            found = scores[start : start + len(part)]
            start += len(part)
            tensor = pb_utils.Tensor("SCORES", found.astype(self.dtype))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses

    def _texts(self, request):
        """One text per row: the strings of a row belong together."""
        rows = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        return [" ".join(word.decode("utf-8", "replace") for word in row) for row in rows]

    def _scores(self, texts):
        """Rows of scores that are 0 or more and sum to 1."""
        ids = np.zeros((len(texts), LENGTH), dtype=np.int64)
        for row, text in enumerate(texts):
            words = text.lower().split()[:LENGTH]
            ids[row, : len(words)] = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words]
        logits = self._forward(ids)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def _forward(self, ids):
        if self.module is None:
            votes = [
                [np.count_nonzero(row % self.labels == label) for label in range(self.labels)] for row in ids
            ]
            return np.asarray(votes, dtype=np.float32) / LENGTH
        import torch

        with torch.inference_mode():
            return self.module(torch.from_numpy(ids).to(self.device)).float().cpu().numpy()

    def finalize(self):
        """Called once, when the copy is unloaded."""
        self.module = None
