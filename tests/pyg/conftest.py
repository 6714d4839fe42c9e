"""PyG graphs for the tests, each in memory and as a store: what holds for one must hold for the other."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

import gz_pyg  # noqa: E402


def random_edges(num_src, num_dst, num_edges, generator):
    return torch.stack(
        [
            torch.randint(num_src, (num_edges,), generator=generator),
            torch.randint(num_dst, (num_edges,), generator=generator),
        ]
    )


def make_homogeneous() -> Data:
    g = torch.Generator().manual_seed(7)
    return Data(
        x=torch.randn(100, 8, generator=g),
        y=torch.randint(5, (100,), generator=g),
        time=torch.randint(1000, (100,), generator=g),
        edge_index=random_edges(100, 100, 600, g),
        edge_attr=torch.randn(600, 3, generator=g),
        edge_time=torch.randint(1000, (600,), generator=g),
        weight=torch.rand(600, generator=g),
        name="random",
    )


def make_heterogeneous() -> HeteroData:
    g = torch.Generator().manual_seed(8)
    data = HeteroData()
    data["paper"].x = torch.randn(100, 4, generator=g)
    data["paper"].time = torch.randint(1000, (100,), generator=g)
    data["author"].x = torch.randn(200, 6, generator=g)
    data["author"].time = torch.randint(1000, (200,), generator=g)
    data["venue"].num_nodes = 5
    for t, n in (
        (("paper", "cites", "paper"), 500),
        (("paper", "written_by", "author"), 1000),
        (("author", "writes", "paper"), 1000),
        (("venue", "publishes", "paper"), 100),
    ):
        data[t].edge_index = random_edges(data[t[0]].num_nodes, data[t[2]].num_nodes, n, g)
        data[t].edge_attr = torch.arange(n)
        data[t].weight = torch.rand(n, generator=g)
        data[t].edge_time = torch.randint(1000, (n,), generator=g)
    return data


@pytest.fixture(scope="session")
def homogeneous() -> Data:
    return make_homogeneous()


@pytest.fixture(scope="session")
def heterogeneous() -> HeteroData:
    return make_heterogeneous()


@pytest.fixture(scope="session")
def homogeneous_path(tmp_path_factory, homogeneous) -> str:
    return gz_pyg.save(homogeneous, tmp_path_factory.mktemp("pyg") / "homogeneous", directions="both")


@pytest.fixture(scope="session")
def heterogeneous_path(tmp_path_factory, heterogeneous) -> str:
    return gz_pyg.save(heterogeneous, tmp_path_factory.mktemp("pyg") / "heterogeneous", directions="both")


@pytest.fixture(params=["memory", "store", "loaded"])
def homo(request, homogeneous, homogeneous_path):
    """The homogeneous graph as a loader may be given it."""
    if request.param == "memory":
        return homogeneous
    return homogeneous_path if request.param == "store" else gz_pyg.load(homogeneous_path)


@pytest.fixture(params=["memory", "store", "loaded"])
def hetero(request, heterogeneous, heterogeneous_path):
    """The heterogeneous graph as a loader may be given it."""
    if request.param == "memory":
        return heterogeneous
    return heterogeneous_path if request.param == "store" else gz_pyg.load(heterogeneous_path)


@pytest.fixture(autouse=True)
def seeded(rng_seed):
    torch.manual_seed(rng_seed + 12345)
