"""Settings of the dataset-layout tests."""

import sys
import types

# Importing ogb asks the network for a newer version, through a package that a current setuptools breaks.
sys.modules["outdated"] = types.ModuleType("outdated")
sys.modules["outdated"].warn_if_outdated = lambda *_: None  # type: ignore[attr-defined]
