"""Trains a tiny language model with the Trainer of Hugging Face; a second start continues from the last checkpoint."""

# --8<-- [start:program]
import json
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from toyspec.integrations.huggingface import ToyspecCallback


class Texts(torch.utils.data.Dataset):
    """64 texts of 16 tokens."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(0, 32, (16,), generator=torch.Generator().manual_seed(at))
        return {"input_ids": tokens, "labels": tokens}


set_seed(7)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
)
arguments = TrainingArguments(
    "checkpoints",
    max_steps=24,
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    logging_steps=2,
    eval_strategy="steps",
    eval_steps=8,
    save_steps=8,
    seed=7,
    use_cpu=True,
    disable_tqdm=True,
    report_to="none",
)
trainer = Trainer(
    model, arguments, train_dataset=Texts(), eval_dataset=Texts(), callbacks=[ToyspecCallback("runs", name="gpt")]
)
checkpoint = get_last_checkpoint("checkpoints") if os.path.isdir("checkpoints") else None
trainer.train(resume_from_checkpoint=checkpoint)

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[row["step"], "loss", row["loss"]] for row in trainer.state.log_history if "loss" in row], file)
