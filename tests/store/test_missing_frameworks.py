"""An adapter without its framework says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("adapter", "missing", "said"),
    [
        ("gz_pyg", "torch", "gz_pyg needs torch, which is not installed: pip install torch torch_geometric"),
        ("gz_pyg", "torch_geometric", "gz_pyg needs torch_geometric, which is not installed"),
        ("gz_dgl", "dgl", "gz_dgl needs DGL: pip install 'dgl>=1.1.3' packaging"),
    ],
)
def test_what_is_missing_is_named(adapter, missing, said):
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == {missing!r} else found(name, *a)
import gz
try:
    import {adapter}
except ModuleNotFoundError as e:
    print(e, e.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert done.stdout.split()[-1] == missing
