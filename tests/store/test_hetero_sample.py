"""Store.sample by weight and by time, over several edge types, held to what numpy says of the same edges."""

from __future__ import annotations

import numpy as np
import pytest

import gz

USERS, ITEMS, E = 40, 60, 900
RATES, KNOWS = ("user", "rates", "item"), ("user", "knows", "user")
TYPES = {RATES: (USERS, ITEMS), KNOWS: (USERS, USERS)}


@pytest.fixture(scope="module")
def given() -> dict:
    rng = np.random.default_rng(5)
    ends = {t: np.stack([rng.integers(0, n, E) for n in sizes]) for t, sizes in TYPES.items()}
    return {
        "ends": ends,
        "w": {t: np.where(rng.random(E) < 0.5, 0, rng.random(E)).astype(np.float32) for t in TYPES},
        "when": {t: rng.integers(0, 1000, E) for t in TYPES},
        "born": {"user": rng.integers(0, 1000, USERS), "item": rng.integers(0, 1000, ITEMS)},
    }


@pytest.fixture(scope="module")
def store(given, tmp_path_factory) -> gz.Store:
    path = tmp_path_factory.mktemp("hetero") / "s"
    nodes = {
        t: {"num_nodes": n, "features": {"born": given["born"][t]}}
        for t, n in (("user", USERS), ("item", ITEMS))
    }
    edges = [
        {"type": list(t), "edges": tuple(e), "features": {"w": given["w"][t], "when": given["when"][t]}}
        for t, e in given["ends"].items()
    ]
    gz.ingest(path, spec={"nodes": nodes, "edges": edges}, directions="both")
    return gz.open(path)


def edges_of(sample: gz.HeteroSample, t) -> tuple[np.ndarray, ...]:
    src, dst = sample.nodes[t[0]][sample.src[t]], sample.nodes[t[2]][sample.dst[t]]
    return src, dst, sample.edge_ids[t]


def test_no_edge_of_weight_zero_and_every_other_by_chance(store, given):
    """One neighbour of one item, drawn 3,000 times: its frequencies are those of the weights."""
    heavy = given["w"][RATES]
    item = np.bincount(given["ends"][RATES][1][heavy > 0]).argmax()
    own = np.flatnonzero((given["ends"][RATES][1] == item) & (heavy > 0))
    drawn = np.zeros(E)
    for seed in range(3000):
        s = store.sample({"item": [item]}, {RATES: [1]}, rng_seed=seed, weights="w")
        drawn[s.edge_ids[RATES]] += 1
    assert set(np.flatnonzero(drawn)) <= set(own)
    expected = 3000 * heavy[own] / heavy[own].sum()
    chi = ((drawn[own] - expected) ** 2 / expected).sum()
    assert chi < len(own) + 6 * np.sqrt(2 * len(own))


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_seed_sees_no_edge_later_than_itself(store, given, by_name, direction):
    seeds = np.arange(USERS)
    limit = np.full(USERS, 500)
    rows = {t: store.feature("when", t).get_tensor() for t in TYPES}
    s = store.sample(
        {"user": seeds}, [-1, -1], direction=direction,
        edge_time="when" if by_name else rows, seed_time={"user": limit},
    )  # fmt: skip
    found = 0
    for t in TYPES:
        src, dst, ids = edges_of(s, t)
        assert np.array_equal(given["ends"][t][:, ids], [src, dst])
        assert (given["when"][t][ids] <= 500).all()
        found += len(ids)
    first = [t for t in TYPES if (t[2] if direction == "in" else t[0]) == "user"]
    wanted = sum((given["when"][t] <= 500).sum() for t in first)
    assert sum(s.edges_per_hop[t][0] for t in first) == wanted
    assert found > wanted
    assert s.batch is not None  # a tree for every seed


def test_seeds_have_the_times_of_their_nodes_unless_told(store, given):
    s = store.sample({"user": np.arange(USERS)}, {KNOWS: [-1]}, node_time="born")
    src, dst, ids = edges_of(s, KNOWS)
    born = given["born"]["user"]
    all_src, all_dst = given["ends"][KNOWS]
    right = np.flatnonzero(born[all_src] <= born[all_dst])
    assert sorted(ids) == list(right)
    assert (born[src] <= born[dst]).all()
    arrays = store.sample({"user": np.arange(USERS)}, {KNOWS: [-1]}, node_time=given["born"])
    assert np.array_equal(arrays.edge_ids[KNOWS], s.edge_ids[KNOWS])


def test_the_latest_are_taken_where_asked_for(store, given):
    now = 700
    s = store.sample(
        {"user": np.arange(USERS)},
        {KNOWS: [2]},
        edge_time="when",
        seed_time={"user": [now] * USERS},
        last=True,
    )
    dst, when = given["ends"][KNOWS][1], given["when"][KNOWS]
    for user in range(USERS):
        seen = np.sort(when[(dst == user) & (when <= now)])[-2:]
        mine = s.edge_ids[KNOWS][s.dst[KNOWS] == user]
        assert np.array_equal(np.sort(when[mine]), seen)


def test_a_column_that_changed_is_sampled_by_its_new_values(given, tmp_path):
    e = given["ends"][KNOWS]
    gz.ingest(tmp_path / "s", edges=tuple(e), num_nodes=USERS, edge_features={"w": np.ones(E, np.float32)})
    store = gz.open(tmp_path / "s")
    t = store.edge_types[0]
    assert store.sample({"node": [0]}, [-1], weights="w").edges_per_hop[t][0]
    only = np.zeros(E, np.float32)
    kept = np.flatnonzero(e[1] == 0)[0]
    only[kept] = 1
    store.add_feature("w", only, t, overwrite=True)
    assert list(store.sample({"node": [0]}, [3], weights="w").edge_ids[t]) == [kept]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"weights": "nothing"}, KeyError, "weights is 'nothing', which is a column of no type"),
        ({"weights": {("a", "b", "c"): "w"}}, KeyError, "no such type; the store has"),
        ({"weights": {KNOWS: np.ones(3)}}, ValueError, "weights have shape"),
        ({"edge_time": {KNOWS: np.ones(E)}}, TypeError, "times are integers"),
        ({"edge_time": {KNOWS: np.ones(3, int)}}, ValueError, r"has shape \(3,\); one for each of 900"),
        ({"edge_time": "when"}, ValueError, r"no times of their own; give seed_time=\{'user'"),
        ({"edge_time": "when", "seed_time": {"user": [1, 2]}}, ValueError, "2 times for 1 seeds"),
        ({"seed_time": {"user": [1]}}, ValueError, "seed_time goes with node_time or edge_time"),
        ({"node_time": {"user": np.zeros(USERS, int)}, "seeds": [USERS]}, IndexError, "out of range"),
    ],
)
def test_wrong_arguments(store, options, error, message):
    seeds = {"user": options.pop("seeds", [0])}
    with pytest.raises(error, match=message):
        store.sample(seeds, [2], **options)
