"""DGL as a peer of `gz bench`: the step it is timed by samples what it should."""

from __future__ import annotations

import numpy as np
import pytest

import gz

dgl = pytest.importorskip("dgl")


def test_bench_compares_with_dgl(tmp_path, monkeypatch):
    from gz.adapter import phase
    from gz_dgl import _peer

    rng = np.random.default_rng(0)
    gz.ingest(tmp_path / "s", edges=tuple(rng.integers(0, 100, (2, 600))), num_nodes=100)
    spec = phase.Spec("sample dgl", str(tmp_path / "s"), "auto", 0.01, "", "", (4, 3), 8, None, None)
    seen = []
    whole = dgl.dataloading.NeighborSampler.sample
    monkeypatch.setattr(
        dgl.dataloading.NeighborSampler, "sample", lambda *a: seen.append(whole(*a)) or seen[-1]
    )
    _peer._sample(spec)(0)
    ((inputs, seeds, blocks),) = seen
    assert len(seeds) == 8
    assert [b.num_edges() for b in blocks][1] <= 8 * 4  # DGL's last block is the first hop
    assert len(inputs) >= 8
