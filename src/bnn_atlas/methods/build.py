"""The method of given settings."""

from importlib import import_module

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.methods.base import Method
from bnn_atlas.posterior.density import Posterior, PosteriorData


def build_method(settings: MethodSettings, posterior: Posterior, data: PosteriorData) -> Method:
    """Method of the settings for a posterior; only its own module is imported, which saves start-up time.

    Raises:
        ValueError: the method does not suit the posterior or its data.
    """
    module, function = settings.builder.split(":")
    method: Method = getattr(import_module(module), function)(settings, posterior, data)
    return method
