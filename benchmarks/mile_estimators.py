"""Two sides of mile_vs_bde.py, estimators of scikit-learn: fit, predictions of all draws on the test rows, scores.

python mile_estimators.py {bde,estimator} JOB; `bde` runs in .venv-peers.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def scores(mean: np.ndarray, scale: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """RMSE, NLL of one Gaussian with the mixture's moments, and LPPD, from means and noises [draw, row] and y [row]."""
    average = mean.mean(axis=0)
    variance = (scale**2).mean(axis=0) + mean.var(axis=0)
    log_density = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    mixture = np.logaddexp.reduce(log_density, axis=0) - np.log(len(mean))
    return {
        "rmse": float(np.sqrt(np.mean((average - y) ** 2))),
        "nll": float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (average - y) ** 2 / variance)),
        "lppd": float(mixture.mean()),
    }


def bde(job: dict[str, Any], x_fit: np.ndarray, y_fit: np.ndarray, x_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and noises [draw, row] of sklearn-contrib-bde."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={job['cores']}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from bde import BdeRegressor

    model, method, training = job["posterior"]["model"], job["method"], job["warmstart"]
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
    raw = np.asarray(regressor.predict(x_test, raw=True), np.float64).reshape(-1, len(x_test), 2)
    return raw[..., 0], np.logaddexp(0.0, raw[..., 1]) + 1e-6  # as BdePredictor has it


def estimator(
    job: dict[str, Any], x_fit: np.ndarray, y_fit: np.ndarray, x_test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and noises [draw, row] of AtlasRegressor."""
    import bnn_atlas

    bnn_atlas.configure(threads=job["cores"])
    model, training = job["posterior"]["model"], job["warmstart"]
    regressor = bnn_atlas.AtlasRegressor(
        hidden=model["hidden"],
        activation=model["activation"],
        likelihood=job["posterior"]["likelihood"],
        method=job["method"],
        chains=job["chains"],
        training={
            name: training[name] for name in ("learning_rate", "weight_decay", "max_epochs", "batch_size", "patience")
        },
        validation_fraction=job["validation"],
        random_state=job["seed"],
    )
    _, mean, scale = regressor.fit(x_fit, y_fit).predict(x_test, return_draws=True)
    return mean, scale


def main(side: str, job: dict[str, Any]) -> None:
    sides = {
        "bde": (bde, ("sklearn-contrib-bde", "jax", "blackjax")),
        "estimator": (estimator, ("bnn-atlas", "jax")),
    }
    draw, used = sides[side]
    with np.load(job["arrays"]) as arrays:
        x_fit, y_fit, x_test, y_test = (arrays[name] for name in ("x_fit", "y_fit", "x_test", "y_test"))
    result = {
        **scores(*draw(job, x_fit, y_fit, x_test), y_test),
        "versions": ", ".join(f"{name} {version(name)}" for name in used),
    }
    Path("scores.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
