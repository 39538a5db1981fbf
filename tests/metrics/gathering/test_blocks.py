"""What is gathered from blocks of chains, joined."""

from pathlib import Path

import numpy as np

from bnn_atlas.metrics.gathering.blocks import merged_virial
from bnn_atlas.metrics.gathering.virial import Virial, save_virial


def test_rises_are_joined_if_all_blocks_have_them(tmp_path: Path) -> None:
    """A rise would otherwise count for another chain."""
    parts = [np.zeros((2, 0, 1)), np.zeros((2, 0, 1))]
    for name, rises in (("a", [1.0, 2.0]), ("b", [3.0, 4.0]), ("old", [])):
        chains = np.array([0, 1] if name == "a" else [2, 3])
        virial = Virial(np.array(["layer0"]), np.array([2]), 1, chains, *parts, rises=np.array(rises))
        save_virial(tmp_path / name, virial)
    for second, rises in (("b", [1, 2, 3, 4]), ("old", [])):
        joined = merged_virial([tmp_path / "a", tmp_path / second], np.arange(4))
        np.testing.assert_array_equal(joined.chains, np.arange(4))
        np.testing.assert_array_equal(joined.rises, rises)
