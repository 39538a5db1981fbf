"""What a trace says about the settings that its draws were made with."""

from pathlib import Path

import numpy as np

from bnn_atlas.config.methods.gaussian import IVONConfig
from bnn_atlas.files import save_arrays
from bnn_atlas.pipeline.steps.sample import loss_course, sample
from bnn_atlas.traces.store import open_trace

from .test_e_values import POSTERIOR, write_data


def test_a_trace_records_its_posterior_and_its_method_in_numbers(tmp_path: Path) -> None:
    files, start = write_data(tmp_path), tmp_path / "start.npz"
    save_arrays(start, {"parameters": np.zeros((1, 3), np.float32), "members": np.array([4])})
    method = IVONConfig(epochs=40, batch_size=10, steps=4).model_dump(mode="json")
    sample(*files, start, tmp_path / "trace.zarr", posterior=POSTERIOR, method=method, seed=0)
    recorded = open_trace(tmp_path / "trace.zarr").attributes["provenance"]["settings"]
    assert recorded["posterior"] == POSTERIOR
    assert recorded["method"] == method | {"hessian_momentum": 1 - 1 / 16}
    assert recorded["chains"] == [4]


def test_the_course_of_an_ensemble_is_the_loss_that_ended_its_training():
    """On validation rows where there are any; members stop at different epochs, and 100 epochs are the fewest."""
    validation, train = np.full((2, 3, 300), np.nan)
    train[:, :250] = np.arange(250)
    validation[0, :200], validation[1, :150], validation[2, :250] = (np.arange(n) / n for n in (200, 150, 250))
    ((name, course),) = loss_course({"train_loss": train, "validation_loss": validation}).items()
    assert name == "validation_loss"
    assert course.shape == (3, 100)
    np.testing.assert_allclose(course[:, -1], [199 / 200, 149 / 150, 249 / 250])
    assert course[0, 0] == 0
    ((name, course),) = loss_course({"train_loss": train, "validation_loss": np.full_like(train, np.nan)}).items()
    assert name == "training_loss"
    np.testing.assert_array_equal(course[:, -1], 249)
    assert loss_course({}) == {}
    assert loss_course({"train_loss": train[:, :99], "validation_loss": validation[:, :99]}) == {}
