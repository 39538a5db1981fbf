"""The smallest runs that each kind of figure takes, with all files that it asks for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.parts.figures import FILES, kinds
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.gathering.summary import load, save
from bnn_atlas.metrics.tables.arrays import Surfaces, load_functions, save_functions, save_surfaces
from bnn_atlas.metrics.tables.parquet import (
    ENTROPY_SCHEMA,
    FUNCTION_SCHEMA,
    PARAMETER_SCHEMA,
    PRUNING_SCHEMA,
    REFEREE_SCHEMA,
    read_table,
    write_e_values,
    write_frame,
    write_rows,
)
from bnn_atlas.traces.grids import BivariateGrids
from tests.figures.aligned_files import aligned_draws, frame
from tests.figures.pair_files import pair_run
from tests.figures.set_files import CONVERGED, Values, written
from tests.figures.subset_files import write_draws
from tests.figures.synthetic_functions import functions_on_line, running_predictions

TOY = load_registry(Path(__file__).parents[2] / "config" / "datasets.yaml")["sinusoids_1"].generate
assert TOY is not None
IMPLICIT = {"kind": "implicit", "generator": {"kind": "matrix", "noise": [1, 3], "hidden": [[2, 2]]}, "sigma": 0.1}
SETTINGS = {
    "temperature": 1.0, "prior": {"kind": "normal"}, "method": {"step_size": 0.01, "trajectory_length": 1.0},
}  # fmt: skip
RUNS: dict[str, tuple[dict[str, Any], ...]] = {
    "layer_marginals": ({"prior_sd": 1.0}, {"prior_sd": 0.5}),
    "generator_sizes": ({"method": "implicit", "settings": {"method": IMPLICIT}},) * 2,
    "nuts_vs_mean_field": ({"method": "nuts"}, {"method": "mean_field"}),
    "one_m_one": ({"prior_sd": 1.0}, {"prior_sd": 0.5}),
    "sampling_vs_ensemble": ({}, {"method": "deep_ensemble"}),
}
"""Kind -> how its runs differ from those of other kinds."""

SCORES: Values = {
    "accuracy": (0.9, 0.01), "nll": (0.3, 0.02), "ece": 0.03, "mean_maximum_confidence": 0.8,
    "calibration_confidence@0.5": 0.6, "calibration_accuracy@0.5": (0.5, 0.02), "calibration_confidence@1": 0.9,
    "calibration_accuracy@1": (0.9, 0.01), "entropy_histogram@0.5": 0.7, "entropy_histogram@1": 0.3,
}  # fmt: skip
OWN: Values = {
    **SCORES, "lppd": (-0.3, 0.03), "rmse": (0.5, 0.02), "rmse_original_units": 3.0,
    "lppd_original_units": (-2.5, 0.05),
    "lppd_chain_mean": (-0.4, 0.03), "accuracy_chain_mean": 0.8, "agreement_ceiling": (0.97, 0.003),
    "total_variation_ceiling": (0.06, 0.002), "gradients_sampling": 2000.0, "gradients_total": 12000.0,
    "coverage@0.5": 0.6, "coverage@0.9": 0.9, "pit_histogram@0.5": 0.6, "pit_histogram@1": 0.4,
    "prior_distance@layer0.weight": 0.1, "marginal_sd@layer0.weight": 0.9, "predictive_entropy": (0.4, 0.02),
    "weight_sd_dead_inputs": 0.5, "weight_sd_live_inputs": 0.3,
    "ess_bulk_function_median": 900.0, "ess_bulk_function_median_per_gradient": 0.01, "entropy": -1200.0,
    "log_likelihood": -40.0,
    "entropy_error": 2.0, "variance_within_weight_median": 0.02, "lppd_cumulative_chains_order_sd": 0.01,
    "energy_change_mean_square_per_dimension": 0.1,
}  # fmt: skip
SETS: dict[str, Values] = {
    **dict.fromkeys(("fog1", "rotated45", "dead_pixels1", "live_pixels1"), SCORES),
    "ood-notmnist": {**SCORES, "predictive_entropy_ood": 1.3, "auroc_confidence": (0.9, 0.01), "auroc_entropy": 0.8},
    "interval-gap": {"function_sd": 0.4}, "interval-right": {"function_sd": 0.2},
}  # fmt: skip
NEAR: Values = {"agreement": (0.94, 0.01), "total_variation": (0.1, 0.02), "elpd_diff": (-0.1, 0.02)}
REFEREE: Values = {
    "referee_log_likelihood_shift": (0.2, 0.1), "referee_log_prior_shift": 0.1, "referee_lppd": -0.3,
    "referee_lppd_change": 0.01, "referee_lppd_chain_mean": (-0.4, 0.02), "referee_mixed": 1,
}  # fmt: skip
COURSES = (
    "lppd_cumulative_chains",
    *(f"{score}{of}_cumulative_draws" for score in ("accuracy", "ece", "lppd") for of in ("", "_chain_mean")),
)


def small(name: str, folder: Path, diagnostics: Values = CONVERGED) -> list[Shown]:
    """Two runs of different labels for a kind, or one, or none; `table` is there as the workflow has it for all."""
    kind = kinds()[name]
    changes = RUNS.get(name, ({}, {}))[: {"none": 0, "one": 1, "some": 2}[kind.runs]]
    wanted = ("table", *kind.sections, *kind.files, *kind.files_if_any)
    return [_run(folder, place, wanted, diagnostics, each) for place, each in enumerate(changes)]


def more(name: str, folder: Path) -> dict[str, Any]:
    """What a kind takes besides runs."""
    if not kinds()[name].claims:
        return {}
    claim = {
        "place": "table 1", "claim": "a", "statement": "A is 0.5", "relation": "equals", "verdict": "agrees",
        "identity": "same", "paper_value": 0.5, "paper_text": "0.50", "here": "0.55", "size": 0.1, "d": 0.05,
        "error": 0.02,
    }  # fmt: skip
    pd.DataFrame([claim]).to_parquet(folder / "claims.parquet")
    return {"claims": folder / "claims.parquet"}


def _run(folder: Path, place: int, wanted: tuple[str, ...], diagnostics: Values, changes: Mapping[str, Any]) -> Shown:
    folder.mkdir(exist_ok=True)
    common = {
        "label": f"method {place}", "entry": "sweep", "dataset": "airfoil", "task": "regression", "hidden": (2,),
        "chains": 2, "settings": SETTINGS, "generator": TOY.model_dump(mode="json"),
    }  # fmt: skip
    against = {"ref": {"test": NEAR, "fog1": NEAR}}
    own = {**OWN, **diagnostics, "reference_fit": float(diagnostics is CONVERGED)}
    one = written(folder, f"r{place}", own, SETS, against, **{**common, **changes})
    table = read_table(one.files["table"])
    first = table[table["metric"] == "lppd"]
    courses = [
        first.assign(metric=course, chains=number, draws=number, value=-1 / number)
        for course in COURSES
        for number in (1, 2)
    ]
    write_rows(one.files["table"], pd.concat([table, *courses], ignore_index=True))
    files, parts = {**one.files}, {**one.parts}
    for file in dict.fromkeys(wanted):
        if file not in (*files, *parts):
            stem = folder / f"{one.run}-{file}"
            made = WRITERS[file](stem.with_suffix(Path(FILES.get(file, "x.npz")).suffix), place)
            (parts if "{" in FILES.get(file, "") else files)[file] = {"x": made} if "{" in FILES.get(file, "") else made
    return one._replace(
        files={name: file for name, file in files.items() if name in wanted},
        parts={name: part for name, part in parts.items() if name in wanted},
    )


NAMES = (
    "layer0.weight[0,0]", "layer0.weight[1,0]", "layer0.bias[0]", "layer0.bias[1]", "layer1.weight[0,0]",
    "layer1.weight[0,1]", "layer1.bias[0]", "log_sigma",
)  # fmt: skip


def _subset(path: Path, place: int) -> Path:
    rng = np.random.default_rng(place)
    return write_draws(path, {name: rng.normal(1, 0.3, (2, 40)) for name in NAMES})


def _grid(path: Path, place: int) -> Path:
    counts = np.histogram2d(*np.random.default_rng(place).normal(size=(2, 400)), bins=10, range=[[-4, 4]] * 2)[0]
    limits = np.array([[[-4.0, 4.0]] * 2])
    nothing = np.zeros(1, np.int64)
    BivariateGrids(NAMES[:1], NAMES[1:2], limits, counts[None].astype(np.int64), nothing, nothing, 400).save(path)
    return path


def _functions(path: Path, place: int) -> Path:
    functions_on_line(path, chains=2, draws=12, points=20, seed=place)
    made = load_functions(path)
    save_functions(path, made._replace(y=np.sin(made.x[:, 0])))
    return path


def _predictive(path: Path, place: int) -> Path:
    running_predictions(path, chains=2, draws=20, seed=place)
    save(path, load(path)._replace(pit=np.full((2, 40), 0.5)))
    return path


def _surface(path: Path, place: int) -> Path:
    x, y = np.linspace(-1, 5, 5)[None], np.linspace(-1, 4, 5)[None]
    points = np.array([[[0.0, 0.0], [4.0, 0.0], [1.0, 3.0]]])
    density, at_points = -(x[:, None] ** 2) - y[..., None] ** 2, -(points**2).sum(axis=2)
    labels = np.array([["a", "b", "c"]])
    save_surfaces(
        path, Surfaces(np.array(["plane"]), x, y, density, density, labels, points, at_points, at_points, np.array(1.0))
    )
    return path


def fit(path: Path, weights: int, points: int = 1) -> Path:
    """An implicit fit by two chains: a generator of 15 parameters and a bias per weight, and `points` beside it."""
    generated, estimated = np.zeros((2, weights)), np.zeros((2, points))
    arrays = {"generator.branches.0.0.weight": np.zeros((2, 5, 3)), "generator.branches.0.1.bias": generated}
    np.savez(path, **arrays, generated=generated, points=estimated, noise=np.array([3, 3]), point=estimated)
    return path


def _referee(path: Path, place: int) -> Path:
    one = written(path.parent, f"r{place}", REFEREE, dataset="airfoil", split=9)
    write_rows(path, read_table(one.files["table"]).assign(split=0))
    return path


def _frame(schema: Any, *rows: dict[str, Any]) -> Callable[[Path, int], Path]:
    def write(path: Path, place: int) -> Path:
        write_frame(path, pd.DataFrame(rows).reindex(columns=schema.names), schema)
        return path

    return write


def _pairs(file: str) -> Callable[[Path, int], Path]:
    return lambda path, place: pair_run(path.parent / path.stem, f"r{place}", [2, 5, 9, 14]).files[file]


def _e_values(path: Path, place: int) -> Path:
    write_e_values(path, [(0, np.arange(9.0), np.arange(9.0) - 5), (1, np.zeros(9), np.zeros(9))], 0.01)
    return path


def _aligned(path: Path, place: int) -> Path:
    aligned_draws(path)
    return path


def _frames(path: Path, place: int) -> Path:
    frame(path)
    return path


WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "subset": _subset, "grid": _grid, "functions": _functions, "surface": _surface, "predictive": _predictive,
    "fit": lambda path, place: fit(path, 8), "referee": _referee, "e_values": _e_values, "aligned_draws": _aligned,
    "frames": _frames,
    **{name: _pairs(name) for name in ("lines", "matches", "norms")},
    "parameters": _frame(PARAMETER_SCHEMA, *({"rhat": rhat, "rhat_gelman_rubin": rhat} for rhat in (1.0, 1.2))),
    "function_values": _frame(FUNCTION_SCHEMA, *({"rhat": rhat, "rhat_gelman_rubin": rhat} for rhat in (1.0, 1.2))),
    "referee_chains": _frame(REFEREE_SCHEMA, *(dict.fromkeys(REFEREE_SCHEMA.names, k) | {"chain": k} for k in (0, 1))),
    "entropies": _frame(ENTROPY_SCHEMA, *(
        {"form": form, "setting": k, "products": 9 * k, "exact": -49.0, "error": 9.0 / k, "sd": 1.0, "bracket": 2.0,
         "noise": 3, "weights": 8}
        for form in ("lanczos", "smallest") for k in (1, 2)
    )),
    "pruning_curves": _frame(PRUNING_SCHEMA, *(
        {"network": "HMC", "of": "mean", "rank": rank, "repeat": 0, "dead_inputs": "kept", "kept": kept,
         "parameters": 5, "accuracy": kept / 100, "standard_error": 0.01, "loss": 1.0}
        for rank in ("random", "sd of HMC") for kept in (100.0, 50.0)
    )),
}  # fmt: skip
"""File -> makes a small one of run `place`, and says where it is."""
