"""Mark of the tests that draw with R."""

import pytest

from bnn_atlas.figures.r_setup import available

needs_r = pytest.mark.skipif(available() is not None, reason=str(available()))
