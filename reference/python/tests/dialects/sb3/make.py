"""Writes this sample: ``python make.py`` with stable-baselines3 2.9.2 and torch 2.15.0, in this directory."""

import shutil

from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

# One training writes progress.json and progress.csv; the second is the sample of the dialect sb3-csv.
agent = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=1, seed=7, device="cpu")
agent.set_logger(configure("out", ["json", "csv"]))
agent.learn(256, log_interval=1)
shutil.move("out/progress.json", "progress.json")
shutil.move("out/progress.csv", "../sb3-csv/progress.csv")
shutil.rmtree("out")
