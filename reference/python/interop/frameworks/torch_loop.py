"""Trains a linear model with PyTorch, logged by the calls of SummaryWriter; a second start continues it."""

# --8<-- [start:program]
import json
import os

import torch

from toyspec.integrations.summary_writer import SummaryWriter

torch.manual_seed(7)
numbers = torch.randn(160, 4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
done, reported = 0, []
if os.path.exists("checkpoint.pt"):
    saved = torch.load("checkpoint.pt")
    done, reported = saved["done"], saved["reported"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])

# After a restart, the steps from `purge_step` on are logged again.
with SummaryWriter("runs", comment="line", run_id="line", purge_step=done or None) as writer:
    writer.add_hparams({"lr": 0.05}, {})
    for step in range(done, 20):
        batch = numbers[8 * step : 8 * step + 8]
        loss = torch.nn.functional.mse_loss(model(batch).squeeze(), batch.sum(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        reported.append([step, "loss", loss.item()])
        if step % 5 == 4:
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({"done": step + 1, "reported": reported, **states}, "checkpoint.pt")

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump(reported, file)
