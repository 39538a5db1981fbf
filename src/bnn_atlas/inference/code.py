"""The code that expensive results depend on, as one hash each; found without importing it."""

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.sources import PLUMBING, code_digest

NOT_IN_DRAWS = (*PLUMBING, "bnn_atlas.data", "bnn_atlas.traces")
"""Code that no draw depends on but through what the fingerprint holds itself: readers and writers, whose arrays are in
it. The runner's phases, checkpoints and messages are left out by not being asked for: `runner.program` computes."""
PROBLEM = ("bnn_atlas.runtime", "bnn_atlas.inference.problem")


def code_of_draws(method: MethodSettings, *, stopped: bool) -> str:
    """SHA-256 of the code that draws of a method depend on; with `stopped`, of that which their number depends on."""
    modules = [method.builder.split(":")[0], "bnn_atlas.runner.program"]
    if stopped:
        modules += ["bnn_atlas.runner.stopping", "bnn_atlas.inference.validation"]
    return _digest(*modules)


def code_of_starts() -> str:
    """SHA-256 of the code that trains the networks from which chains start."""
    return _digest("bnn_atlas.warmstart.ensemble", "bnn_atlas.warmstart.permuted")


def code_of_untrained() -> str:
    """SHA-256 of the code that draws the networks from which chains start without training."""
    return _digest("bnn_atlas.warmstart.initial")


def code_of_predictions() -> str:
    """SHA-256 of the code that predicts rows with draws."""
    return _digest("bnn_atlas.inference.predictor", "bnn_atlas.metrics.gathering.predictive")


def _digest(*modules: str) -> str:
    return code_digest(*modules, *PROBLEM, without=NOT_IN_DRAWS)
