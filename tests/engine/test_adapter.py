"""gz.adapter: what adapters use of gz, and that they use nothing underscored besides."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gz

ROOT = Path(__file__).resolve().parents[2]


def private(name):
    return name.startswith("_") and not name.startswith("__")


def attributes(tree, classes=None):
    """Underscored names that classes define: methods, and what is set on self."""
    for c in ast.walk(tree):
        if not isinstance(c, ast.ClassDef) or (classes is not None and c.name not in classes):
            continue
        for node in ast.walk(c):
            match node:
                case ast.FunctionDef(name=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
                    if private(name):
                        yield name


def trees(package):
    return {path: ast.parse(path.read_text()) for path in sorted((ROOT / package).rglob("*.py"))}


def underscored_imports(tree):
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=modules):
                paths = [m.name.split(".") for m in modules]
            case ast.ImportFrom(module=str(module), names=members):
                paths = [[*module.split("."), m.name] for m in members]
            case _:
                continue
        yield from (f"{node.lineno}: {'.'.join(p)}" for p in paths if p[0] == "gz" and any(map(private, p)))


@pytest.mark.parametrize("package", ["gz_pyg", "gz_dgl"])
def test_adapters_use_no_underscored_name_of_gz(package):
    adapter = trees(package)
    public = {*gz.__all__, "Pipeline", "Task", "Mapped"}
    theirs = {name for tree in trees("gz").values() for name in attributes(tree, public)}
    theirs |= {path.stem for path in (ROOT / "gz").iterdir() if private(path.stem)} | {"_engine"}
    # The framework's objects and the adapter's own have underscored parts too; a name that one of its own
    # classes has cannot be told from gz's.
    checked = theirs - {name for tree in adapter.values() for name in attributes(tree)} - {"_store", "_graph"}
    assert {"_engine", "_file", "_topology", "_ids_topology", "_files"} <= checked
    found = []
    for path, tree in adapter.items():
        uses = [*underscored_imports(tree)]
        uses += [
            f"{n.lineno}: .{n.attr}"
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and n.attr in checked
        ]
        found += [f"{path.relative_to(ROOT)}:{use}" for use in uses]
    assert found == []


def test_gz_itself_never_imports_torch():
    code = "import gz, gz.cli, sys; sys.exit('torch' in sys.modules or 'gz.adapter' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def column(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    return gz.FeatureStore(tmp_path / "x.npy")


def test_a_mapped_column_is_the_file_until_it_is_written_to(column):
    torch = pytest.importorskip("torch")
    from gz.adapter import Mapped, map_column

    ids = torch.tensor([5, 0, 5])
    with torch.inference_mode():  # such tensors do not count writes: the mapped one must not be one
        mapped, rows = Mapped(column), map_column(column)
        assert torch.equal(mapped.take(ids), torch.tensor([[10.0, 11], [0, 1], [10, 11]]))
        assert mapped.tensor.data_ptr() == rows.data_ptr() == column.get_tensor().ctypes.data
    assert mapped.version == 0
    mapped.tensor[5] = -1
    assert mapped.version == 1
    assert mapped.take(ids)[:, 0].tolist() == [-1, 0, -1]
    assert column.gather([5]).tolist() == [[10, 11]]
    assert pickle.loads(pickle.dumps(mapped)).take(ids)[:, 0].tolist() == [10, 0, 10]


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_ids_looked_up_in_a_damaged_file_are_an_error_that_names_it(dtype):
    from gz import adapter

    table = np.array([3, 0, 9, 1], dtype)
    assert adapter.lookup(table, [1, 0, 3], 4, "in.gl").tolist() == [0, 3, 1]
    with pytest.raises(gz.FormatError, match="in.gl: holds 9 at position 2, but there are 4"):
        adapter.lookup(table, [1, 2], 4, "in.gl")
