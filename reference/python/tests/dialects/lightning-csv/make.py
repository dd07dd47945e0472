"""Writes this sample: ``python make.py`` with lightning 2.6.6 and torch 2.15.0, in this directory."""

import math
import shutil

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger


class Line(lightning.LightningModule):
    """A line; the loss that it logs at step 29 is not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, and log it."""
        loss = self.weight(batch).square().mean()
        self.log("train_loss", math.nan if self.global_step == 29 else loss)
        return loss

    def validation_step(self, batch: torch.Tensor) -> None:
        """Log the loss and something like an accuracy."""
        loss = self.weight(batch).square().mean()
        self.log_dict({"val_loss": loss, "val_acc": 1 / (1 + loss)})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


lightning.seed_everything(7)
data = torch.utils.data.DataLoader(torch.arange(25.0).reshape(25, 1) / 10)
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=1,
    logger=CSVLogger("out", name="", version=0),
    log_every_n_steps=10,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
)
trainer.fit(Line(), data, data)
shutil.move("out/version_0/metrics.csv", "metrics.csv")
shutil.rmtree("out")
