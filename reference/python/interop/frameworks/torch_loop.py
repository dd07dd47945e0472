"""Trains a linear model in a plain loop of PyTorch, through the calls of SummaryWriter."""

# --8<-- [start:program]
import json

import torch

from toyspec.integrations.summary_writer import SummaryWriter

torch.manual_seed(7)
numbers = torch.randn(160, 4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
reported = []

with SummaryWriter("runs", comment="line") as writer:
    for step in range(20):
        batch = numbers[8 * step : 8 * step + 8]
        loss = torch.nn.functional.mse_loss(model(batch).squeeze(), batch.sum(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        reported.append([step, "loss", loss.item()])
    writer.add_hparams({"lr": 0.05}, {"final": loss.item()})

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump(reported, file)
