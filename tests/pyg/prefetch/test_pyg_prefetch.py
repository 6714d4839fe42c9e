"""prefetch: batches made ahead in background threads are the batches the loader makes without them."""

from __future__ import annotations

import threading

import pytest
import torch
from prefetch_batches import DEPTHS, same
from torch_geometric import seed_everything
from torch_geometric.nn import SAGEConv

import gz_pyg


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first, self.second = SAGEConv(features, 16), SAGEConv(16, 5)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(x, edge_index)


def losses(data, **options):
    """Dropout draws from torch's generator between the batches."""
    seed_everything(11)
    loader = gz_pyg.NeighborLoader(data, [4, 3], batch_size=16, shuffle=True, **options)
    model = Model(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    curve = []
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
    return curve


@pytest.mark.slow
def test_the_loss_curve_with_dropout_is_bit_identical(homo):
    want = losses(homo, prefetch=0)
    assert len(want) == 3 * 7
    assert want[0] > want[-1]
    for depth in [None, *DEPTHS[1:]]:
        assert losses(homo, prefetch=depth) == want


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disjoint": True, "replace": True},
        {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"},
        {"time_attr": "time", "input_time": torch.arange(100)},
        {"weight_attr": "weight"},
        {"filter_per_worker": False},
        {"drop_last": True},
    ],
    ids=lambda o: "+".join(o) or "plain",
)
def test_nodes(homo, options):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(homo, [4, 3], batch_size=16, shuffle=True, prefetch=depth, **options)
        )

    want = batches(0)
    for depth in DEPTHS[1:]:
        same(want, batches(depth))


def test_several_types(hetero):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(
                hetero, [4, 3], input_nodes="paper", batch_size=16, shuffle=True, prefetch=depth
            )
        )

    want = batches(0)
    for depth in DEPTHS[1:]:
        same(want, batches(depth))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": "binary"},
        {"neg_sampling": "triplet"},
        {"neg_sampling": {"mode": "binary", "amount": 2, "src_weight": torch.arange(100.0)}},
        {"neg_sampling": "binary", "time_attr": "time", "edge_label_time": torch.arange(600)},
    ],
    ids=["plain", "binary", "triplet", "weighted", "temporal"],
)
def test_links(homo, options):
    def batches(depth, draws=0):
        seed_everything(3)
        loader = gz_pyg.LinkNeighborLoader(
            homo, [4, 3], batch_size=100, shuffle=True, prefetch=depth, **options
        )
        made = []
        for batch in loader:
            torch.rand(draws)
            made.append(batch)
        return made

    want = batches(0)
    for depth in DEPTHS:
        same(want, batches(depth, draws=depth + 1))


def test_negatives_are_drawn_anew_for_every_batch_and_from_all_nodes(homogeneous):
    loader = gz_pyg.LinkNeighborLoader(homogeneous, [1], batch_size=60, neg_sampling="binary")
    drawn = [b.n_id[b.edge_label_index[:, 60:]] for b in (*loader, *loader)]
    assert len({tuple(d.view(-1).tolist()) for d in drawn}) == 20
    counts = torch.stack(drawn).view(-1).bincount(minlength=100).double()
    assert counts.sum() == 2400
    # 99 degrees of freedom: 1 in 100,000 exceeds 165.
    assert ((counts - 24) ** 2 / 24).sum() < 165


def test_what_the_loop_draws_changes_no_batch(homogeneous):
    def batches(draws, depth):
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(homogeneous, [4, 3], batch_size=16, shuffle=True, prefetch=depth):
            torch.rand(draws)
            made.append(batch)
        return made

    want = batches(0, 0)
    for depth in DEPTHS:
        same(want, batches(7, depth))


def test_batches_and_epochs_differ_from_each_other(homogeneous):
    loader = gz_pyg.NeighborLoader(homogeneous, [3], batch_sampler=[list(range(100))] * 5)
    drawn = {tuple(b.e_id.tolist()) for _ in range(3) for b in loader}
    assert len(drawn) == 15


@pytest.mark.parametrize("taken", [1, 3, 7])
def test_torchs_generator_moves_alike(homogeneous, taken):
    def after(depth):
        seed_everything(5)
        loader = gz_pyg.LinkNeighborLoader(
            homogeneous, [4], batch_size=80, shuffle=True, neg_sampling="binary", prefetch=depth
        )
        iterator = iter(loader)
        first = torch.rand(1)  # the order is drawn at the first batch, not at iter()
        for _ in range(taken):
            next(iterator)
        return first, torch.get_rng_state()

    want = after(0)
    for depth in DEPTHS[1:]:
        got = after(depth)
        assert torch.equal(want[0], got[0])
        assert torch.equal(want[1], got[1])


def test_a_generator_of_its_own_decides_order_and_samples(homogeneous):
    def batches(depth):
        generator = torch.Generator().manual_seed(4)
        loader = gz_pyg.NeighborLoader(
            homogeneous, [3], batch_size=16, shuffle=True, generator=generator, prefetch=depth
        )
        return [b for _ in range(2) for b in loader]

    want = batches(0)
    for depth in DEPTHS[1:]:
        torch.rand(3)
        same(want, batches(depth))


@pytest.mark.parametrize("where", ["transform", "transform_sampler_output"])
def test_random_transforms_run_in_the_consumers_thread_and_in_order(homo, where):
    def batches(depth):
        seed_everything(3)
        seen = []

        def transform(batch):
            assert threading.current_thread() is threading.main_thread()
            seen.append(float(torch.rand(1)))
            return batch

        loader = gz_pyg.NeighborLoader(homo, [3], batch_size=16, prefetch=depth, **{where: transform})
        made = []
        for batch in loader:
            made.append(batch)
            seen.append(float(torch.rand(1)))
        return seen, made

    seen, made = batches(0)
    assert len(seen) == 14
    for depth in DEPTHS[1:]:
        got = batches(depth)
        assert got[0] == seen
        same(made, got[1])


def test_data_written_to_in_the_loop_is_seen_as_without_prefetch(homogeneous, homogeneous_path):
    def run(data, depth):
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(data, [3], batch_size=16, shuffle=True, prefetch=depth):
            made.append(batch.clone())
            data.x[batch.n_id] += 1.0  # a table of embeddings, say
            if len(made) == 4:
                data.y = data.y + 1
        return made

    for make in (lambda: homogeneous.clone(), lambda: gz_pyg.load(homogeneous_path).to_data()):
        want = run(make(), 0)
        for depth in DEPTHS[1:]:
            same(want, run(make(), depth))


def test_a_tensor_added_to_a_store_in_the_loop(homogeneous_path):
    def run(depth):
        data = gz_pyg.load(homogeneous_path)
        seed_everything(3)
        made = []
        for batch in gz_pyg.NeighborLoader(data, [3], batch_size=16, prefetch=depth):
            made.append(batch)
            if len(made) == 2:
                data.feature_store.put_tensor(torch.arange(100), group_name=None, attr_name="z", index=None)
        return made

    want = run(0)
    assert ["z" in b for b in want] == [False] * 2 + [True] * 5
    for depth in DEPTHS[1:]:
        same(want, run(depth))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_torchs_modes_hold_for_the_rows_too(homogeneous, mode):
    data = homogeneous.clone()
    data.x.requires_grad_()
    for depth in DEPTHS:
        loader = gz_pyg.NeighborLoader(data, [3], batch_size=16, prefetch=depth)
        iterator = iter(loader)
        assert next(iterator).x.requires_grad
        with mode():
            for batch in iterator:
                assert batch.x.requires_grad == (mode is torch.enable_grad)
                assert batch.x.is_inference() == (mode is torch.inference_mode)


def test_workers_are_reproducible_whatever_prefetch_says(homo):
    def batches(depth):
        seed_everything(3)
        return list(
            gz_pyg.NeighborLoader(homo, [3], batch_size=16, shuffle=True, num_workers=2, prefetch=depth)
        )

    want = batches(None)
    same(want, batches(0))
    same(want, batches(3))
