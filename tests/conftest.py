"""Settings of every test process: four XLA devices on the CPU, and the same examples in every run."""

from hypothesis import settings

from bnn_atlas.runtime import configure

configure(threads=4)
settings.register_profile("atlas", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("atlas")
