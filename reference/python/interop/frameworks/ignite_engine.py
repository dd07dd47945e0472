"""Trains a linear model with PyTorch-Ignite; a second start continues from the checkpoint."""

# --8<-- [start:program]
import json
import os

import torch
from ignite.engine import Engine, Events

from toyspec.integrations.ignite import ToyspecLogger

torch.manual_seed(7)
numbers = torch.randn(10, 8, 4, generator=torch.Generator().manual_seed(7))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
reported: list[list[object]] = []


def update(engine: Engine, batch: torch.Tensor) -> float:
    """Train on one batch."""
    loss = torch.nn.functional.mse_loss(model(batch).squeeze(), batch.sum(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    reported.append([engine.state.iteration, "train/loss", loss.item()])
    return loss.item()


trainer = Engine(update)
if os.path.exists("checkpoint"):
    saved = torch.load("checkpoint")
    model.load_state_dict(saved["model"])
    trainer.load_state_dict(saved["trainer"])
    reported = saved["reported"]


@trainer.on(Events.EPOCH_COMPLETED)
def save(engine: Engine) -> None:
    """Save a checkpoint after each epoch."""
    torch.save({"model": model.state_dict(), "trainer": engine.state_dict(), "reported": reported}, "checkpoint")


with ToyspecLogger("runs", run_id="line") as logger:
    # The loss of each iteration, and the learning rate.
    logger.attach_output_handler(
        trainer, Events.ITERATION_COMPLETED, tag="train", output_transform=lambda loss: {"loss": loss}
    )
    logger.attach_opt_params_handler(trainer, Events.ITERATION_STARTED, optimizer=optimizer, param_name="lr")
    trainer.run(numbers, max_epochs=2, epoch_length=10)

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump(reported, file)
