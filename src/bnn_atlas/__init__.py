"""BNN Atlas: posteriors of Bayesian neural networks, from their densities to scored draws.

The names below are all that most users of the library need; docs/library.md shows how to use them. They are imported on
first use, so that `import bnn_atlas` does not import JAX before `configure` is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bnn_atlas.export.reference_posterior import Reference, open_reference
    from bnn_atlas.library.alignment import Alignment, align
    from bnn_atlas.library.draws import PosteriorDraws, open_pool, sample, starting_points
    from bnn_atlas.library.estimators import AtlasClassifier, AtlasRegressor
    from bnn_atlas.library.posteriors import NetworkPosterior, build_posterior, posterior_of
    from bnn_atlas.library.predictions import predict, predict_draws, score, to_arviz
    from bnn_atlas.library.symmetries import Symmetry
    from bnn_atlas.runtime import configure

__all__ = [
    "Alignment",
    "AtlasClassifier",
    "AtlasRegressor",
    "NetworkPosterior",
    "PosteriorDraws",
    "Reference",
    "Symmetry",
    "align",
    "build_posterior",
    "configure",
    "open_pool",
    "open_reference",
    "posterior_of",
    "predict",
    "predict_draws",
    "sample",
    "score",
    "starting_points",
    "to_arviz",
]

_ELSEWHERE = {
    "configure": "bnn_atlas.runtime",
    "Reference": "bnn_atlas.export.reference_posterior",
    "open_reference": "bnn_atlas.export.reference_posterior",
    "Symmetry": "bnn_atlas.library.symmetries",
    **dict.fromkeys(("Alignment", "align"), "bnn_atlas.library.alignment"),
    **dict.fromkeys(("AtlasClassifier", "AtlasRegressor"), "bnn_atlas.library.estimators"),
    **dict.fromkeys(("predict", "predict_draws", "score", "to_arviz"), "bnn_atlas.library.predictions"),
    **dict.fromkeys(("NetworkPosterior", "build_posterior", "posterior_of"), "bnn_atlas.library.posteriors"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_ELSEWHERE.get(name, "bnn_atlas.library.draws"))
    except ModuleNotFoundError as error:
        if error.name != "sklearn":
            raise
        advice = "`pip install 'bnn-atlas[sklearn]'`, or `pip install '.[sklearn]'` in a clone"
        raise ModuleNotFoundError(f"scikit-learn is not installed: run {advice}", name=error.name) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
