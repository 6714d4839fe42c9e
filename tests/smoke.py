"""What an installed wheel must do, wherever it was installed: `python tests/smoke.py`, outside of the clone.

Needs numpy and gz alone; the adapters are tried where their frameworks are installed. Run by
tests/store/test_packaging.py and, for every wheel that is published, by cibuildwheel.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import gz


def main() -> None:
    here = Path(gz.__file__).resolve().parent
    assert "site-packages" in here.parts, f"gz is not installed: it came from {here}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        src, dst = np.random.default_rng(0).integers(0, 100, (2, 1000))
        x = np.random.default_rng(1).random((100, 8), dtype=np.float32)
        gz.ingest(path, edges=(src, dst), features={"x": x}, directions="both")
        store = gz.open(path)
        batch = store.graph().sample([0, 1, 2], [5, 5], rng_seed=1)
        assert np.array_equal(store.feature("x").gather(batch.nodes), x[batch.nodes])
        assert store.graph(direction="out").batch_random_walk([0], 3).shape == (1, 4)
        assert all(error is None for _, error in gz.verify(path))
        done = subprocess.run(
            [sys.executable, "-m", "gz", "info", path], capture_output=True, text=True, check=True
        )
        assert "100" in done.stdout, done.stdout
        tried = [name for name, needs in ADAPTERS.items() if importlib.util.find_spec(needs)]
        for name in tried:
            ADAPTER_CHECKS[name](path)
    print(f"gz {gz.__version__} works, Python {sys.version.split()[0]}, with {tried or 'no adapter'}")


def try_pyg(path: Path) -> None:
    import gz_pyg

    batch = next(iter(gz_pyg.NeighborLoader(path, num_neighbors=[3, 3], batch_size=10)))
    assert batch.x.shape[1] == 8
    assert gz_pyg.__version__ == gz.__version__


def try_dgl(path: Path) -> None:
    import gz_dgl

    assert gz_dgl.load(path).num_nodes() == 100
    assert gz_dgl.__version__ == gz.__version__


ADAPTERS = {"gz_pyg": "torch_geometric", "gz_dgl": "dgl"}
ADAPTER_CHECKS = {"gz_pyg": try_pyg, "gz_dgl": try_dgl}

if __name__ == "__main__":
    main()
