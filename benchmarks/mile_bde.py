"""Their side of mile_vs_bde.py, run in .venv-peers: fit, predictions of all draws on the test rows, scores.

python mile_bde.py JOB
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def scores(raw: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """RMSE, NLL of one Gaussian with the mixture's moments, and LPPD from raw outputs [member, draw, row, 2]."""
    mean = raw[..., 0].astype(np.float64)
    scale = np.logaddexp(0.0, raw[..., 1].astype(np.float64)) + 1e-6  # as BdePredictor has it
    average = mean.mean(axis=(0, 1))
    variance = (scale**2).mean(axis=(0, 1)) + mean.var(axis=(0, 1))
    log_density = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    mixture = np.logaddexp.reduce(log_density, axis=(0, 1)) - np.log(mean.shape[0] * mean.shape[1])
    return {
        "rmse": float(np.sqrt(np.mean((average - y) ** 2))),
        "nll": float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (average - y) ** 2 / variance)),
        "lppd": float(mixture.mean()),
    }


def main(job: dict[str, Any]) -> None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={job['cores']}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from bde import BdeRegressor

    model, method, training = job["posterior"]["model"], job["method"], job["warmstart"]
    with np.load(job["arrays"]) as arrays:
        x_fit, y_fit, x_test, y_test = (arrays[name] for name in ("x_fit", "y_fit", "x_test", "y_test"))
    regressor = BdeRegressor(
        n_members=job["chains"],
        hidden_layers=model["hidden"],
        activation=model["activation"],
        seed=job["seed"],
        epochs=training["max_epochs"],
        patience=training["patience"],
        validation_split=job["validation"],
        lr=training["learning_rate"],
        weight_decay=training["weight_decay"],
        warmup_steps=method["warmup"],
        n_samples=method["steps"],
        n_thinning=method["thinning"],
        step_size_init=method["step_size_init"],
        desired_energy_var_start=method["energy_variance_start"],
        desired_energy_var_end=method["energy_variance_end"],
    )
    regressor.fit(x_fit, y_fit)
    raw = np.asarray(regressor.predict(x_test, raw=True))
    used = ("sklearn-contrib-bde", "jax", "blackjax")
    result = {**scores(raw, y_test), "versions": ", ".join(f"{name} {version(name)}" for name in used)}
    Path("scores.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
