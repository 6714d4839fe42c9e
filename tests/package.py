"""Builds what is published and tries it where nothing of the clone is: `make package`, a part of CI.

The sdist is built from the tree, the wheels from the sdist, so that a missing file is noticed. One wheel
of Python 3.12 serves all later ones (abi3). Each is installed into an empty environment of every interpreter
from 3.11 on that this machine has, tests/smoke.py run in another folder, and gz imported inside the clone.
Then `make demo`, small, in the unpacked sdist, with the wheel. With --out the files are kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
ABI3_FROM = "3.12"
# In the clone its own folder gz/ is imported, which has no engine: that of the installed gz is taken.
IN_THE_CLONE = """
import sys, gz
from pathlib import Path
clone, here = (Path(p).resolve() for p in sys.argv[1:])
assert Path(gz.__file__).resolve() == clone / "gz" / "__init__.py", gz.__file__
assert Path(gz._engine.__file__).resolve().is_relative_to(here), gz._engine.__file__
"""


def run(*command: object, cwd: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")


def candidates(version: str) -> list[str]:
    """Programs that may be this Python: the one that runs this, what the shell finds, pyenv's."""
    own = [sys.executable] if sys.version_info[:2] == tuple(map(int, version.split("."))) else []
    named = shutil.which(f"python{version}")
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return [*own, *([named] if named else []), *map(str, kept)]


def interpreters(tmp: Path) -> dict[str, Path]:
    """An empty environment for each version that can be had; shims that lead nowhere are none."""
    found = {}
    for version in VERSIONS:
        for program in candidates(version):
            if subprocess.run([program, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                run(program, "-m", "venv", tmp / version, cwd=tmp)
                found[version] = tmp / version / "bin" / "python"
                break
        else:
            print(f"python{version}: not on this machine")
    return found


def demo(sdist: Path, wheel: Path, tmp: Path) -> None:
    """`make demo` of the unpacked sdist, in a `.venv` that has the wheel, and the torch and PyG of this
    environment instead of another gigabyte of them."""
    if importlib.util.find_spec("torch_geometric") is None:
        print("make demo: not tried, PyG is not installed here")
        return
    shutil.unpack_archive(sdist, tmp / "unpacked")
    (tree,) = (tmp / "unpacked").iterdir()
    run(sys.executable, "-m", "venv", tree / ".venv", cwd=tmp)
    python = tree / ".venv" / "bin" / "python"
    (site,) = (tree / ".venv" / "lib").glob("python*/site-packages")
    (site / "frameworks.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp)
    for stamp in (".stamp-deps", ".stamp-engine"):  # as `make` leaves them when it has set up
        (tree / ".venv" / stamp).touch()
    run("make", "demo", "DEMO=--size 20MB --limit 2GB --seconds 1", cwd=tree)
    if not (tree / "gz-demo.svg").exists() or (tree / "gz-demo").exists():
        sys.exit("make demo: drew nothing, or left its graph behind")
    print(f"make demo: works in {tree.name}, with {wheel.name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="keep sdist and wheels here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gz-package-") as folder:
        tmp = Path(folder)
        smoke = shutil.copy(ROOT / "tests" / "smoke.py", tmp)  # beside tests/dgl it would take that for DGL
        run(sys.executable, "-m", "build", "--sdist", "--outdir", tmp, ROOT, cwd=tmp)
        (sdist,) = tmp.glob("gz-*.tar.gz")
        print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
        wheels: dict[str, Path] = {}
        for version, python in interpreters(tmp).items():
            built = ABI3_FROM if version >= ABI3_FROM else version
            if built not in wheels:
                target = tmp / f"wheel-{built}"
                run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", target, sdist, cwd=tmp)
                (wheels[built],) = target.glob("*.whl")
            run(python, "-m", "pip", "install", "--quiet", wheels[built], cwd=tmp)
            run(python, smoke, cwd=tmp)
            run(python, "-c", IN_THE_CLONE, ROOT, tmp, cwd=ROOT)
            run(python, "-m", "gz", "--version", cwd=ROOT)
            print(f"python{version}: {wheels[built].name} installs and works")
        if not wheels:
            sys.exit("no interpreter to try a wheel with")
        own = "{}.{}".format(*sys.version_info)
        demo(sdist, wheels[ABI3_FROM if own >= ABI3_FROM else own], tmp)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            for file in (sdist, *wheels.values()):
                shutil.copy(file, args.out)


if __name__ == "__main__":
    main()
