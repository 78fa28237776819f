"""A handler that tells how many requests came in one call, and works for as long as the first one asks."""

import time

import torch


class Probe:
    def initialize(self, _context):
        self.model = torch.nn.Linear(4, 2)

    def handle(self, data, _context):
        bodies = [row["body"] for row in data]
        time.sleep(max(body.get("work_s", 0) for body in bodies))
        with torch.no_grad():
            rows = self.model(torch.zeros(len(bodies), 4))
        return [{"batch": len(rows), "id": body.get("id")} for body in bodies]
