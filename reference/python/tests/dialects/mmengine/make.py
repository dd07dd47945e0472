"""Writes this sample: ``python make.py`` in this directory, with mmengine 0.10.7 and torch 2.15.0."""

import glob
import shutil

import torch
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.model import BaseModel
from mmengine.runner import Runner


class Line(BaseModel):
    """A line; its loss is not a number in the last iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)
        self.calls = 0

    def forward(self, x: torch.Tensor, mode: str) -> dict[str, torch.Tensor] | list[torch.Tensor]:
        """Return the loss of a batch, or the predictions."""
        if mode != "loss":
            return [self.weight(x)]
        self.calls += 1
        return {"loss": self.weight(x).square().mean() * (float("nan") if self.calls > 95 else 1.0)}


class Mean(BaseMetric):
    """The mean of what the model predicts."""

    default_prefix = "coco"

    def process(self, data_batch: object, data_samples: list[torch.Tensor]) -> None:
        """Keep the predictions."""
        self.results.extend(float(each.mean()) for each in data_samples)

    def compute_metrics(self, results: list[float]) -> dict[str, float]:
        """Return the mean."""
        return {"bbox_mAP": sum(results) / len(results)}


torch.manual_seed(7)
data = {"dataset": [torch.tensor([i / 50]) for i in range(50)], "batch_size": 1, "num_workers": 0}
data["sampler"] = {"type": "DefaultSampler", "shuffle": False}
Runner(
    Line(),
    "out",
    train_dataloader=data,
    val_dataloader=data,
    val_evaluator=Evaluator(Mean()),
    train_cfg={"by_epoch": True, "max_epochs": 2},
    val_cfg={},
    optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01}},
    default_hooks={"logger": {"type": "LoggerHook", "interval": 25}, "checkpoint": None},
    randomness={"seed": 7},
).train()
shutil.move(glob.glob("out/*/vis_data/scalars.json")[0], "scalars.json")
shutil.rmtree("out")
