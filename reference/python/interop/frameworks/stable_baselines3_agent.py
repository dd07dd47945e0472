"""Trains an agent with Stable-Baselines3."""

# --8<-- [start:program]
import csv
import json

from stable_baselines3 import PPO
from stable_baselines3.common.logger import CSVOutputFormat, Logger

from toyspec.integrations.stable_baselines3 import ToyspecOutputFormat

model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=7, device="cpu")
model.set_logger(Logger(folder=None, output_formats=[ToyspecOutputFormat("runs"), CSVOutputFormat("progress.csv")]))
model.learn(total_timesteps=128, log_interval=1)
model.logger.close()

# --8<-- [end:program]
with open("progress.csv", encoding="utf-8", newline="") as file:
    rows = [row for row in csv.DictReader(file) if row["train/loss"]]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[int(float(row["time/total_timesteps"])), "train/loss", float(row["train/loss"])] for row in rows], file)
