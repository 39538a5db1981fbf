"""Puts the compiled gradient into a wheel, which is then for one platform; without a compiler it is for all.

hatchling runs this file, in an environment without this package.
"""

import runpy
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledGradient(BuildHookInterface):
    """Build hook of hatchling."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library and add it, or say in one line what is lost."""
        builder = runpy.run_path(str(Path(self.root, "src/bnn_atlas/native/build.py")))
        try:
            file = builder["build"]()
        except Exception as error:
            print(f"The compiled gradient could not be built: {error}; {builder['LOST']}", file=sys.stderr)
            return
        if version == "standard":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["force_include"][str(file)] = f"bnn_atlas/native/{file.name}"
