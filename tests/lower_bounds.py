"""Tries gz with the oldest versions that pyproject.toml allows: `make lower-bounds`.

Into an empty environment of Python 3.11 go numpy, pyarrow, torch, PyG and DGL, each at its lower bound, and a
wheel of this tree; then tests/smoke.py and the tests below run outside of the clone. Where a registry has no
CPU build of a torch that old, pip takes the one with CUDA: 5 GB of disk for as long as it runs. So it is no
part of CI; it is for whoever changes a bound, or uses something that is new in a framework.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from graphs import shared_data
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
TESTED = (
    "tests/pyg/test_pyg_save.py",
    "tests/pyg/test_pyg_sampler.py",
    "tests/pyg/test_pyg_stores.py",
    "tests/pyg/test_pyg_training.py",
    "tests/pyg/loader/test_pyg_neighbor_loader.py",
    "tests/pyg/loader/test_pyg_links.py",
    "tests/dgl/test_dgl_store.py",
    "tests/dgl/test_dgl_sampling.py",
    "tests/store/test_store.py",
    "tests/store/test_export.py",
    "tests/ingest/read",
)
# These need something newer: pickles are read safely by torch 2.5 and later, as gz says; PyG 2.6 trips over
# a matrix among its own attributes, and its batches do not say the type of their seeds; there is no polars.
NOT_TESTED = (
    "tests/ingest/read/test_pickled.py",
    "tests/ingest/read/test_strange_tables.py",
    "tests/pyg/test_pyg_save.py::test_a_matrix_is_saved_as_its_edges_and_weights",
    "tests/pyg/loader/test_pyg_neighbor_loader.py::test_heterogeneous_batches_are_parts_of_the_graph",
)
# pytest and what the tests import besides; their versions are ours to choose.
TOOLS = ("pytest", "pytest-timeout", "hypothesis", "scipy", "pandas", "xxhash", "setuptools")


def lower_bounds() -> list[str]:
    """`name==version` of all that gz and its adapters ask for, at the least that is allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [Requirement(r) for r in (*project["dependencies"], *extras["pyg"], *extras["dgl"])]
    environment = {"python_version": PYTHON, "extra": ""}
    found: dict[str, str] = {}
    for r in asked:
        if r.marker is None or r.marker.evaluate(environment):
            least = next((s.version for s in r.specifier if s.operator == ">="), None)
            found[r.name] = f"{r.name}=={least}" if least else r.name
    return list(found.values())


def run(*command: object, cwd: Path, **env: str) -> None:
    print("$", *command, flush=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=kept | env)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pip-flags", default="", help="for pip install, as --extra-index-url=...")
    parser.add_argument("--environment", type=Path, help="use this one and keep it")
    parser.add_argument("--wheel", type=Path, help="of gz; else one is built of this tree")
    parser.add_argument("tests", nargs="*", default=TESTED, help="instead of all of TESTED")
    args = parser.parse_args()
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        sys.exit(f"needs Python {PYTHON}, for which all the oldest versions have wheels")
    bounds = lower_bounds()
    print("lower bounds:", ", ".join(bounds))
    with tempfile.TemporaryDirectory(prefix="gz-bounds-") as folder:
        tmp = Path(folder)
        env = args.environment.resolve() if args.environment else tmp / "env"
        python = env / "bin" / "python"
        if not python.exists():
            run(sys.executable, "-m", "venv", env, cwd=tmp)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        install = [*pip, "install", "--quiet", *args.pip_flags.split()]
        if args.wheel is None:
            build = [
                "-C",
                f"build-dir={tmp / 'build'}",
            ]  # the clone's would be compiled anew after it
            run(*pip, "wheel", "--quiet", "--no-deps", *build, "-w", tmp, ROOT, cwd=tmp)
        wheel = args.wheel.resolve() if args.wheel else next(tmp.glob("gz-*.whl"))
        run(*install, *bounds, *TOOLS, cwd=tmp)  # in one call, so that no tool raises a bound
        run(*install, "--no-deps", "--force-reinstall", wheel, cwd=tmp)
        run(*pip, "check", cwd=tmp)
        shutil.copy(ROOT / "tests" / "smoke.py", tmp)
        run(python, "smoke.py", cwd=tmp, DGLBACKEND="pytorch")
        shutil.copytree(ROOT / "tests", tmp / "tests")
        shutil.copy(ROOT / "pyproject.toml", tmp)
        left_out = [f"--{'deselect' if '::' in t else 'ignore'}={t}" for t in NOT_TESTED]
        pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out]
        data = {"GZ_TEST_DATA": str(d)} if (d := shared_data()) else {}  # the copy would look beside itself
        run(*pytest, *args.tests, cwd=tmp, DGLBACKEND="pytorch", **data)
    print("the lower bounds hold:", ", ".join(bounds))


if __name__ == "__main__":
    main()
