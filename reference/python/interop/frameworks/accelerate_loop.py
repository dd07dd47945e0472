"""Trains a linear model in a loop of Accelerate; a second start continues from the saved state."""

# --8<-- [start:program]
import json
import os

import accelerate
import torch

import toyspec.integrations.accelerate  # noqa: F401 - makes the name "toyspec" known to Accelerate

accelerate.utils.set_seed(7)
accelerator = accelerate.Accelerator(cpu=True, log_with="toyspec")
accelerator.init_trackers(
    "line", config={"lr": 0.05, "steps": 20}, init_kwargs={"toyspec": {"root": "runs", "run_id": "line"}}
)

numbers = torch.randn(160, 4, generator=torch.Generator().manual_seed(7))
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))

done, reported = 0, []
if os.path.exists("progress.json"):
    accelerator.load_state("state")
    with open("progress.json", encoding="utf-8") as file:
        done, reported = json.load(file)
for step in range(done + 1, 21):
    batch = numbers[8 * (step - 1) : 8 * step]
    loss = torch.nn.functional.mse_loss(model(batch).squeeze(), batch.sum(dim=1))
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"loss": loss.item(), "lr": 0.05}, step=step)
    reported.append([step, "loss", loss.item()])
    if step % 5 == 0:
        accelerator.save_state("state")
        with open("progress.json", "w", encoding="utf-8") as file:
            json.dump([step, reported], file)
accelerator.end_training()

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump(reported, file)
