"""Trains a linear model with Lightning; a second start continues from the last checkpoint."""

# --8<-- [start:program]
import csv
import glob
import json

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from toyspec.integrations.lightning import ToyspecLogger


class Line(lightning.LightningModule):
    """Learns the sum of four numbers."""

    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], at: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]).squeeze(), batch[1])
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], at: int) -> None:
        self.log("val/loss", torch.nn.functional.mse_loss(self.layer(batch[0]).squeeze(), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["learning_rate"])


lightning.seed_everything(7, verbose=False)
numbers = torch.randn(64, 4, generator=torch.Generator().manual_seed(7))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(numbers, numbers.sum(dim=1)), batch_size=8)
own = CSVLogger("csv", flush_logs_every_n_steps=1)
trainer = lightning.Trainer(
    max_epochs=4,
    log_every_n_steps=2,
    accelerator="cpu",
    logger=[ToyspecLogger("runs", run_id="line"), own],
    callbacks=[ModelCheckpoint("checkpoints", save_last=True)],
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Line(0.05), data, data, ckpt_path="last" if glob.glob("checkpoints/last*") else None)

# --8<-- [end:program]
with open(f"{own.log_dir}/metrics.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[int(row["step"]), "train/loss", float(row["train/loss"])] for row in rows if row["train/loss"]], file)
