"""Inside a clone, whose folder gz/ holds no engine: `import gz`, `python -m gz`, `python -m pytest`.

After a real installation: tests/package.py, which has one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import gz

ROOT = Path(__file__).resolve().parents[2]
BORROWED = Path(numpy.__file__).parents[1]
WHERE = "import gz; print(gz.__file__); print(gz._engine.__file__)"


def python(*args, cwd, path=(), program=sys.executable):
    """A Python that knows nothing of how gz is installed here: without `site`, no .pth file is read."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([program, "-S", *args], cwd=cwd, env=env, capture_output=True, text=True)


@pytest.fixture
def installed(tmp_path):
    """A folder of packages with gz in it, as `pip install .` makes it."""
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "gz", site / "gz", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(gz._engine.__file__, site / "gz")
    return site


@pytest.fixture
def clone(tmp_path):
    for folder in ("gz", "csrc/python"):
        shutil.copytree(ROOT / folder, tmp_path / "clone" / folder)
    return tmp_path / "clone"


@pytest.mark.slow
def test_a_clone_takes_its_engine_from_the_installed_gz(clone, installed):
    path = installed, BORROWED
    result = python("-c", WHERE, cwd=clone, path=path)
    assert result.stderr == ""
    package, engine = map(Path, result.stdout.split())
    assert (package.parents[1], engine.parents[1]) == (clone, installed)
    assert python("-m", "gz", "--version", cwd=clone, path=path).stdout == f"gz {gz.__version__}\n"
    (clone / "test_it.py").write_text("import gz\n\n\ndef test_it():\n    assert gz.num_threads() > 0\n")
    result = python("-m", "pytest", "-q", "test_it.py", cwd=clone, path=path)
    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_a_clone_without_an_engine_says_what_to_do(clone):
    for command in (["-c", "import gz"], ["-m", "gz"]):
        result = python(*command, cwd=clone)
        assert result.returncode != 0
        assert result.stderr.endswith(f"run `pip install .` in {clone}\n")


def test_an_engine_built_from_another_state_of_the_clone_says_what_to_do(clone, installed):
    with open(clone / "csrc/python/sample.cpp", "a") as f:
        f.write("// changed since\n")
    result = python("-c", "import gz", cwd=clone, path=(installed, BORROWED))
    assert result.returncode != 0
    assert f"run `pip install .` in {clone} again" in result.stderr
    assert python("-c", "import gz", cwd=installed.parent, path=(installed, BORROWED)).returncode == 0
