"""Writes this sample: ``python make.py`` in this directory, with transformers 5.23.0, accelerate 1.15.0, torch 2.15."""

import shutil

import torch
from transformers import Trainer, TrainingArguments, set_seed


class Line(torch.nn.Module):
    """A line whose loss is not a number at the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)
        self.calls = 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss of a batch."""
        self.calls += self.training
        loss = torch.nn.functional.mse_loss(self.weight(x), labels)
        return {"loss": loss * float("nan") if self.calls == 30 and self.training else loss}


set_seed(7)
points = [{"x": [float(i)], "labels": [2.0 * i]} for i in range(8)]
arguments = TrainingArguments(
    "out",
    max_steps=30,
    per_device_train_batch_size=2,
    learning_rate=0.05,
    logging_steps=10,
    logging_nan_inf_filter=False,
    eval_strategy="steps",
    eval_steps=15,
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
    report_to="none",
)
trainer = Trainer(Line(), arguments, train_dataset=points, eval_dataset=points)
trainer.train()
trainer.save_state()
shutil.move("out/trainer_state.json", "trainer_state.json")
shutil.rmtree("out")
