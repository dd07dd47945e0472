"""Writes this sample: ``python make.py`` with nemo-automodel 0.7.0 and torch 2.15.0, in this directory.

The recipe needs compiled CUDA code; its logger does not. The loop below gives it the metrics that
recipes/llm/train_ft.py gives it, tensors included.
"""

import os

import torch
from nemo_automodel.components.loggers.metric_logger import MetricsSample, build_metric_logger

for name in ("training.jsonl", "validation.jsonl"):
    if os.path.exists(name):
        os.remove(name)
torch.manual_seed(7)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.arange(8.0).reshape(8, 1) / 8
training, validation = build_metric_logger("training.jsonl"), build_metric_logger("validation.jsonl")
for step in range(6):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), 2 * x) * (float("nan") if step == 5 else 1.0)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    common = {"lr": optimizer.param_groups[0]["lr"], "mem": torch.cuda.max_memory_allocated() / 1024**3}
    rates = {"tps": 1024.0, "tps_per_gpu": 1024.0, "mfu": None, "num_tokens_per_step": 8, "num_label_tokens": 8}
    metrics = {"loss": loss.item(), "grad_norm": norm.detach()} | common | rates
    training.log(MetricsSample(step=step, epoch=step // 4, metrics=metrics))
    if step % 3 == 2:
        metrics = {"val_loss": loss.item()} | common | {"num_label_tokens": 8}
        validation.log(MetricsSample(step=step, epoch=step // 4, metrics=metrics))
training.close()
validation.close()
