"""What crosses the binding: results with fields that own their memory, arguments that keep theirs alive."""

import gc
import sys

import numpy as np
import pytest

import gz
from gz import _engine

N = 500


@pytest.fixture
def topology():
    rng = np.random.default_rng(1)
    degrees = rng.integers(1, 40, N)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return _engine.Topology.from_arrays(indptr, rng.integers(0, N, indptr[-1]).astype(np.int32), N)


def address(array):
    return array.__array_interface__["data"][0]


def sample(topology, seeds, **columns):
    edge_type = _engine.SampleEdgeType(topology, 0, 0, [5, 5], **columns)
    return _engine.sample([N], [edge_type], [_engine.SampleSeeds(0, seeds)], rng_seed=7)


def test_a_field_is_one_array_that_outlives_its_struct(topology):
    found = sample(topology, np.arange(50))
    edges = found.edges[0]
    rows, ends = edges.rows, (edges.frontier, edges.neighbour)
    assert edges.rows is rows
    assert len({address(a) for a in (rows, *ends)}) == 3
    before = rows.copy(), ends[0].copy()
    del found, edges
    others = [sample(topology, np.arange(i, i + 50)) for i in range(20)]  # would take memory given back
    assert all(address(o.edges[0].rows) != address(rows) for o in others)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(ends[0], before[1])


def test_an_array_gives_its_memory_back_by_itself(topology):
    seeds = np.arange(N)
    edge_type = _engine.LayerEdgeType(topology, 0, 0, -1)
    layer = _engine.sample_layer([N], [edge_type], [seeds] * 1)
    kept, at = layer.edges[0].frontier, address(layer.edges[0].neighbour)
    assert layer.edges[0].neighbour.nbytes > 1 << 14  # pooled, not from the heap
    del layer
    again = _engine.sample_layer([N], [edge_type], [seeds])
    arrays = (again.edges[0].neighbour, again.edges[0].frontier, again.edges[0].rows)
    assert at in {address(a) for a in arrays}
    assert address(kept) not in {address(a) for a in arrays}


def test_an_edge_type_keeps_its_columns_alive(topology):
    columns = {
        "weights": np.ones(topology.num_edges, np.float32),
        "edge_time": np.zeros(topology.num_edges, np.int64),
        "node_time": np.zeros(N, np.int32),
    }
    before = [sys.getrefcount(c) for c in columns.values()]
    edge_type = _engine.SampleEdgeType(topology, 0, 0, [5], **columns)
    during = [sys.getrefcount(c) for c in columns.values()]
    assert all(d > b for d, b in zip(during, before, strict=True))
    del edge_type
    assert [sys.getrefcount(c) for c in columns.values()] == before
    seeds, excluded = np.arange(3), np.arange(4)
    before = sys.getrefcount(seeds), sys.getrefcount(excluded)
    kept = _engine.SampleSeeds(0, seeds, seeds), _engine.LayerEdgeType(topology, 0, 0, 1, exclude=excluded)
    assert sys.getrefcount(seeds) > before[0] + 1  # given twice
    assert sys.getrefcount(excluded) > before[1]
    del kept


def test_a_column_with_gaps_is_copied_and_the_copy_kept(topology):
    weights = np.zeros(topology.num_edges * 2, np.float32)[::2]
    weights[3::7] = 1
    edge_type = _engine.SampleEdgeType(topology, 0, 0, [3], weights=weights)
    weights[:] = 1
    found = _engine.sample([N], [edge_type], [_engine.SampleSeeds(0, np.arange(N))]).edges[0]
    assert len(found.rows)
    assert set(found.rows.tolist()) <= set(range(3, topology.num_edges, 7))


def test_columns_of_another_dtype_are_refused_by_name(topology):
    with pytest.raises(ValueError, match="weights must be float32 or float64"):
        _engine.SampleEdgeType(topology, 0, 0, [1], weights=np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="node times must be int32 or int64"):
        _engine.SampleEdgeType(topology, 0, 0, [1], node_time=np.zeros(3, np.float64))
    with pytest.raises(ValueError, match="weights must be float32 or float64 or uint8"):
        _engine.LayerEdgeType(topology, 0, 0, 1, weights=np.zeros(3, np.float16))
    with pytest.raises(ValueError, match="2 seeds but 3 seed times"):
        _engine.SampleSeeds(0, np.arange(2), np.arange(3))


def test_rows_of_a_table_own_their_memory(tmp_path):
    text = b"".join(b"%d,n%d,%d\n" % (i, i, i * i) for i in range(5000))
    fmt = _engine.CsvFormat(",", 3, [0])
    fmt.add_value(2, "int64", 0)
    rows = _engine.CsvSource("t", fmt, 0, 1 << 20).text_to_rows(text)
    keys = np.concatenate([r.keys[0] for r in rows])
    values = [r.payload for r in rows]
    assert sum(r.count for r in rows) == 5000
    del rows
    np.testing.assert_array_equal(keys, np.arange(5000))
    np.testing.assert_array_equal(np.concatenate(values).view(np.int64), np.arange(5000) ** 2)
    named = _engine.CsvSource("t", _engine.CsvFormat(",", 3, [1], text_keys=True), 0, 1 << 20)
    texts = [r.keys[0] for r in named.text_to_rows(text)]
    assert b"".join(t.bytes.tobytes() for t in texts) == b"".join(b"n%d" % i for i in range(5000))
    assert sum(len(t.offsets) - 1 for t in texts) == 5000


def test_sections_of_a_topology_are_the_mapped_file(tmp_path):
    gz.ingest(tmp_path / "s", edges=([0, 1, 2], [1, 2, 0]), progress=False)
    graph = gz.open(tmp_path / "s").graph()
    opened = _engine.Topology.open(graph.path)
    assert address(opened.indices.bytes) == address(opened.indices.bytes)
    assert opened.indices.bytes.view(opened.indices.dtype).tolist() == [2, 0, 1]
    assert opened.indptr.bytes.view(np.uint64).tolist() == [0, 1, 2, 3]
    assert opened.edge_ids is None
    assert opened.weights is None
    held = opened.indices.bytes
    del opened
    gc.collect()
    assert held.view(np.uint32).tolist() == [2, 0, 1]
