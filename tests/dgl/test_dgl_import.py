"""Which DGL is imported, and how: 2.x without GraphBolt's library, none at all, one that is too old."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
import ready

import gz_dgl
from gz_dgl import _dgl

GRAPHBOLT = """
from pathlib import Path
import torch
wanted = Path(__file__).parent / f"libgraphbolt_pytorch_{torch.__version__.split('+')[0]}.so"
if not wanted.exists():
    raise FileNotFoundError(f"Cannot find DGL C++ graphbolt library at {wanted}")
LOADED = True
"""

# The names gz_dgl takes from DGL, in the layout of 2.x, whose modules import GraphBolt and derive from it.
PACKAGE = {
    "__init__.py": """
        __version__ = "{version}"
        from . import graphbolt as gb
        from . import backend, base, frame, graph_index, heterograph, heterograph_index, ndarray
        from . import distributed, random, sampling, utils
        from .random import seed
        in_subgraph = out_subgraph = lambda g: "dgl"
    """,
    "distributed.py": """
        from .graphbolt import FusedCSCSamplingGraph
        from . import graphbolt as gb
        class Partition(gb.FusedCSCSamplingGraph):
            pass
    """,
    "backend.py": "",
    "ndarray.py": "",
    "graph_index.py": "",
    "utils.py": "",
    "heterograph_index.py": "class HeteroGraphIndex: pass",
    "base.py": """
        ALL, EID, NID = "__ALL__", "_ID", "_ID"
        is_all = lambda x: x is ALL
        class DGLError(Exception): pass
    """,
    "frame.py": """
        class Column:
            data = property(lambda self: None, lambda self, v: None)
        class Frame: pass
    """,
    "heterograph.py": """
        class DGLGraph:
            def update_all(self): pass
            multi_update_all = apply_edges = update_all
            add_nodes = add_edges = remove_nodes = remove_edges = update_all
        class DGLBlock(DGLGraph): pass
    """,
    "random.py": "def seed(val): pass",
    "sampling.py": "sample_neighbors = lambda g, *a: 'dgl'",
    "_ffi/__init__.py": "",
    "_ffi/object_generic.py": "class ObjectGeneric: pass",
}


def fake_dgl(folder: Path, version: str, library: bool) -> None:
    import torch

    for name, text in PACKAGE.items():
        path = folder / "dgl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("{version}", version))
    graphbolt = folder / "dgl" / "graphbolt"
    graphbolt.mkdir()
    text = GRAPHBOLT + ("class FusedCSCSamplingGraph: pass\n" if library else "")
    (graphbolt / "__init__.py").write_text(text)
    if library:
        (graphbolt / f"libgraphbolt_pytorch_{torch.__version__.split('+')[0]}.so").touch()


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{textwrap.dedent(code)}"
    return ready.run(["-c", program], ready.TORCH, cwd=folder)


@pytest.mark.slow
def test_dgl_2_imports_where_its_graphbolt_has_no_library(tmp_path):
    fake_dgl(tmp_path, "2.4.0", library=False)
    alone = run(tmp_path, "import dgl")
    assert "Cannot find DGL C++ graphbolt library" in alone.stderr
    done = run(
        tmp_path,
        """
        import gz_dgl, dgl
        assert dgl.__version__ == "2.4.0" and issubclass(gz_dgl.StoreGraph, dgl.heterograph.DGLGraph)
        assert dgl.sampling.sample_neighbors(object()) == "dgl"
        try:
            dgl.graphbolt.FusedCSCSamplingGraph()
        except ImportError as e:
            print(e)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert "gz_dgl does not need it" in done.stdout


@pytest.mark.slow
def test_graphbolt_is_left_alone_where_its_library_is_there(tmp_path):
    fake_dgl(tmp_path, "2.4.0", library=True)
    done = run(tmp_path, "import gz_dgl, dgl; assert dgl.graphbolt.LOADED")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_dgl_that_is_too_old_is_refused(tmp_path):
    fake_dgl(tmp_path, "0.9.1", library=True)
    done = run(tmp_path, "import gz_dgl")
    assert "needs DGL 1.1 or later; this is 0.9.1" in done.stderr


@pytest.mark.slow
def test_no_dgl_at_all_says_what_to_install(tmp_path):
    code = """
    import importlib.util as u
    find = u.find_spec
    u.find_spec = lambda name, *a: None if name == "dgl" else find(name, *a)
    import gz_dgl
    """
    done = run(tmp_path, code)
    assert "pip install 'dgl>=1.1.3'" in done.stderr


@pytest.mark.slow
def test_the_adapter_imports_no_graphbolt_and_no_pyg():
    others = "('gz_pyg', 'torch_geometric', 'dgl.graphbolt')"
    code = f"import gz_dgl, sys; print([m for m in {others} if m in sys.modules])"
    done = ready.run(["-c", code], ready.TORCH)
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow
def test_what_was_imported_from_dgl_before_gz_dgl_knows_a_store_too(tmp_path):
    code = """
    from dgl import add_self_loop, seed
    from dgl.sampling import sample_neighbors
    from dgl.transforms import AddReverse
    import dgl, gz_dgl, inspect, torch, warnings
    warnings.simplefilter("ignore")
    edges = torch.arange(50), (torch.arange(50) + 1) % 50
    gz_dgl.save(dgl.graph((edges[0].repeat(9), torch.cat([(edges[0] + k) % 50 for k in range(9)]))), "store")
    g = gz_dgl.load("store", memory=1000)   # too little for DGL's own function
    draws = []
    for value in (5, 5, 6):
        seed(value)
        draws.append(sample_neighbors(g, torch.arange(50), 3).edata[dgl.EID].tolist())
    assert draws[0] == draws[1] != draws[2]
    g = gz_dgl.load("store")
    assert add_self_loop(g).num_edges() == 500 and AddReverse()(g).num_edges() == 900
    assert g.add_self_loop().num_edges() == 500
    assert list(inspect.signature(sample_neighbors).parameters)[:3] == ["g", "nodes", "fanout"]
    print("done")
    """
    done = run(tmp_path, code)
    assert done.stdout.strip().endswith("done"), done.stderr


def test_dgls_own_graphs_go_where_they_always_went():
    import dgl
    import torch

    gz_dgl._install()  # once more: each function is redirected once
    g = dgl.graph(([0, 1], [1, 2]))
    assert type(dgl.sampling.sample_neighbors(g, torch.tensor([1]), 1)) is dgl.DGLGraph
    assert dgl.add_self_loop(g).num_edges() == 5
    assert dgl.transforms.AddReverse()(g=g).num_edges() == 4
    with pytest.raises(TypeError, match="positional"):
        dgl.add_self_loop()


@pytest.mark.parametrize("memory", ["2GB", "1.5 MiB", 77])
def test_memory_limits_are_read_as_elsewhere(on_disk, memory):
    import dgl

    from gz._base.sizes import parse_memory

    g = dgl.graph(([0, 1], [1, 2]))
    assert on_disk(g, memory=memory)._graph.limit == parse_memory(memory, least=0)
    with pytest.raises(ValueError, match="2GB"):
        on_disk(g, memory="lots")


@pytest.mark.parametrize(
    ("text", "version"), [("1.1.3", (1, 1)), ("2.4.0+cu124", (2, 4)), ("0.10.1", (0, 10)), ("2.1rc1", (2,))]
)
def test_versions_are_read_as_numbers(monkeypatch, text, version):
    monkeypatch.setattr(_dgl.dgl, "__version__", text)
    assert _dgl.dgl_version() == version
