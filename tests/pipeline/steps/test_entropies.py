"""The table of the forms of the entropy at a kept fit, from files alone."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.methods.implicit.compare import PLACES
from bnn_atlas.methods.implicit.family import FitError, build_family, fitted
from bnn_atlas.metrics.tables.parquet import ENTROPY_SCHEMA, read_frame
from bnn_atlas.pipeline.steps.comparisons import EntropyError, entropies

from .making import LAYOUT, POSTERIOR, Run, make_run

METHOD: dict[str, Any] = {
    "kind": "implicit",
    "generator": {"kind": "mlp", "noise": 6, "hidden": [9]},
    "generated": {"roles": ["weight"]},
    "entropy": {"kind": "exact"},
}
WEIGHTS = sum(parameter.size for parameter in LAYOUT.parameters if parameter.role == "weight")


def make_fit(run: Run, path: Path, chains: int = 2) -> None:
    """Write the `fit.npz` of several chains, each with different parameters."""
    posterior = load_problem(run.dataset, run.split, {**POSTERIOR, "data_shards": 1}).posterior
    family = build_family(ImplicitConfig(**METHOD), posterior)
    starts = [family.start(jax.random.key(chain), np.zeros(LAYOUT.size, np.float32)) for chain in range(chains)]
    named = [family.named(np.asarray(q)) for q in starts]
    arrays = {f"generator.{name}": np.stack([values[name] for values, *_ in named]) for name in named[0][0]}
    np.savez(path, **arrays, point=np.stack([point for *_, point in named]))


@pytest.mark.slow
def test_the_table_is_that_of_the_first_chain(tmp_path: Path) -> None:
    run, fit, table = make_run(tmp_path), tmp_path / "fit.npz", tmp_path / "entropies.parquet"
    make_fit(run, fit)
    entropies(run.dataset, run.split, fit, table, posterior=POSTERIOR, method=METHOD, seed=3)
    found = read_frame(table, ENTROPY_SCHEMA)
    assert list(found.columns) == ENTROPY_SCHEMA.names
    assert set(found["form"]) == {"lanczos", "smallest", "published"}
    assert (found["noise"] == 6).all()
    assert (found["weights"] == WEIGHTS).all()

    posterior = load_problem(run.dataset, run.split, {**POSTERIOR, "data_shards": 1}).posterior
    with np.load(fit) as arrays:
        first = fitted(ImplicitConfig(**METHOD), posterior, dict(arrays), chain=0)
    exact = []
    for key in jax.random.split(jax.random.split(jax.random.key(3))[0], PLACES):
        z = first.family.draw_noise(key, first.q).z
        j = np.asarray(jax.jacobian(lambda z: first.family.generator(first.family.tree(first.q), z))(z), float)
        exact.append(0.5 * np.linalg.slogdet(j.T @ j + first.family.sigma**2 * np.eye(6))[1])
    np.testing.assert_allclose(found["exact"], np.mean(exact), rtol=1e-5)
    # As many steps as noise numbers leave the probe alone, whose error the form states.
    (last,) = found[(found["form"] == "lanczos") & (found["setting"] == 5)].itertuples()
    assert abs(last.error) < 4 * last.sd / np.sqrt(PLACES * 20)
    assert (found.loc[found["form"] == "smallest", "error"] < 0).all()


def test_other_methods_and_fits_are_refused(tmp_path: Path) -> None:
    run, fit = make_run(tmp_path), tmp_path / "fit.npz"
    make_fit(run, fit)
    files = run.dataset, run.split, fit, tmp_path / "entropies.parquet"
    with pytest.raises(EntropyError, match="the method is 'mean_field'"):
        entropies(*files, posterior=POSTERIOR, method={"kind": "mean_field"}, seed=3)
    other = METHOD | {"generator": {"kind": "mlp", "noise": 6, "hidden": [8]}}
    with pytest.raises(FitError, match="not a fit of these settings"):
        entropies(*files, posterior=POSTERIOR, method=other, seed=3)
    for damaged in (b"", b"no fit", fit.read_bytes()[:300]):
        fit.write_bytes(damaged)
        with pytest.raises(EntropyError, match=r"fit.npz: not a fit .*; delete it and make it again"):
            entropies(*files, posterior=POSTERIOR, method=METHOD, seed=3)
    assert not files[-1].exists()
