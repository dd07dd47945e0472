"""Trains a linear model with JAX and optax; a second start continues from the checkpoint."""

# --8<-- [start:program]
import json
import os
import pickle

import jax
import jax.numpy as jnp
import optax

from toyspec import start_run

numbers = jax.random.normal(jax.random.key(7), (160, 4))
optimizer = optax.sgd(0.05)


@jax.jit
def train_step(weights, state, batch):
    """Return the new weights and state, and the loss before them."""
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((batch @ w - batch.sum(axis=1)) ** 2))(weights)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(weights, updates), state, loss


weights = jnp.zeros(4)
done, state, reported = 0, optimizer.init(weights), []
if os.path.exists("checkpoint"):
    with open("checkpoint", "rb") as file:
        done, weights, state, reported = pickle.load(file)
with start_run("runs", run_id="line", exist="resume", config={"lr": 0.05, "steps": 20}) as run:
    for step in range(done + 1, 21):
        weights, state, loss = train_step(weights, state, numbers[8 * (step - 1) : 8 * step])
        run.log({"loss": loss, "lr": 0.05}, step=step)
        reported.append([step, "loss", float(loss)])
        if step % 5 == 0:
            with open("checkpoint", "wb") as file:
                pickle.dump((step, weights, state, reported), file)

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump(reported, file)
