"""Trains an agent with Stable-Baselines3; a second start continues from the checkpoint."""

# --8<-- [start:program]
import csv
import json
import os

import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.logger import CSVOutputFormat, Logger

from toyspec.integrations.stable_baselines3 import ToyspecOutputFormat

environment = gymnasium.make("CartPole-v1")
if os.path.exists("saved/agent_64_steps.zip"):
    model = PPO.load("saved/agent_64_steps", environment, device="cpu")
else:
    model = PPO("MlpPolicy", environment, n_steps=32, batch_size=32, n_epochs=1, seed=7, device="cpu")
formats = [ToyspecOutputFormat("runs", run_id="cart-pole"), CSVOutputFormat("progress.csv")]
model.set_logger(Logger(folder=None, output_formats=formats))
model.learn(
    total_timesteps=128 - model.num_timesteps,
    log_interval=1,
    reset_num_timesteps=False,
    callback=CheckpointCallback(save_freq=64, save_path="saved", name_prefix="agent"),
)
model.logger.close()

# --8<-- [end:program]
with open("progress.csv", encoding="utf-8", newline="") as file:
    rows = [row for row in csv.DictReader(file) if row["train/loss"]]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[int(float(row["time/total_timesteps"])), "train/loss", float(row["train/loss"])] for row in rows], file)
