"""Every function and transform of dgl.transforms, called: what test_dgl_transforms runs.

NOT_RUN says why the others are not. The test holds both together against the modules themselves.
"""

from __future__ import annotations

import dgl
import torch
from dgl import transforms as T

NOT_RUN = {
    "knn_graph": "takes points, no graph",
    "segmented_knn_graph": "takes points, no graph",
    "radius_graph": "takes points, no graph",
    "KNNGraph": "takes points, no graph",
    "to_simple_graph": "an older name of to_simple that DGL itself refuses",
    "BaseTransform": "does nothing",
    "LaplacianPE": "an older name of LapPE",
    "laplacian_pe": "an older name of lap_pe",
}


def base():
    """Simple, bidirected, connected, without self loops: what the pickiest of the functions ask for."""
    n = 40
    ring = torch.arange(n)
    u = torch.randint(0, n, (60,), generator=torch.Generator().manual_seed(0))
    v = (u + torch.randint(1, n, (60,), generator=torch.Generator().manual_seed(1))) % n
    g = dgl.to_bidirected(dgl.graph((torch.cat([u, ring]), torch.cat([v, (ring + 1) % n]))))
    g.ndata["feat"] = torch.rand(n, 5, generator=torch.Generator().manual_seed(2))
    g.ndata["tag"] = torch.arange(n) % 3
    g.edata["w"] = torch.rand(g.num_edges(), generator=torch.Generator().manual_seed(3))
    return g


def relations():
    """Two node types, self loops and a relation with repeated edges."""
    g = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1, 1, 2, 3, 3, 3], [1, 2, 1, 3, 0, 0, 3]),
            ("user", "plays", "game"): ([0, 1, 1, 3], [0, 1, 2, 2]),
        }
    )
    for t in g.ntypes:
        g.nodes[t].data["feat"] = torch.rand(g.num_nodes(t), 3)
    for t in g.canonical_etypes:
        g.edges[t].data["w"] = torch.rand(g.num_edges(t))
    return g


def _changed(method, *args):
    def call(g):
        getattr(g, method)(*args)
        return g

    return call


def _halves(g):
    parts, old_nodes, old_edges = dgl.partition_graph_with_halo(g, torch.arange(g.num_nodes()) % 2, 1)
    return [parts[0], parts[1], old_nodes, old_edges]


FUNCTIONS = {
    "add_edges": lambda g: dgl.add_edges(g, [0, 1], [5, 45], {"w": torch.tensor([2.0, 3.0])}),
    "add_nodes": lambda g: dgl.add_nodes(g, 2, {"feat": torch.ones(2, 5)}),
    "add_reverse_edges": lambda g: dgl.add_reverse_edges(g, copy_edata=True),
    "add_self_loop": lambda g: dgl.add_self_loop(g, edge_feat_names=["w"], fill_data=7.0),
    "adj_product_graph": lambda g: dgl.adj_product_graph(g, g, "w"),
    "adj_sum_graph": lambda g: dgl.adj_sum_graph([g, g], "w"),
    "compact_graphs": lambda g: dgl.compact_graphs([g, g])[1],
    "double_radius_node_labeling": lambda g: dgl.double_radius_node_labeling(g, 0, 1),
    "khop_adj": lambda g: dgl.khop_adj(g, 2),
    "khop_graph": lambda g: dgl.khop_graph(g, 2),
    "lap_pe": lambda g: dgl.lap_pe(g, 2).abs(),
    "laplacian_lambda_max": lambda g: torch.tensor(dgl.laplacian_lambda_max(g)),
    "line_graph": lambda g: g.line_graph(),
    "metapath_reachable_graph": lambda g: dgl.metapath_reachable_graph(g, ["_E", "_E"]),
    "metis_partition": lambda g: sum(p.num_nodes() for p in dgl.metis_partition(g, 2).values()) >= 40,
    "metis_partition_assignment": lambda g: torch.bincount(dgl.metis_partition_assignment(g, 2)) > 15,
    "norm_by_dst": lambda g: dgl.norm_by_dst(g),
    "partition_graph_with_halo": _halves,
    "random_walk_pe": lambda g: dgl.random_walk_pe(g, 3, eweight_name="w"),
    "remove_edges": lambda g: dgl.remove_edges(g, torch.arange(5), store_ids=True),
    "remove_nodes": lambda g: dgl.remove_nodes(g, torch.arange(5), store_ids=True),
    "remove_self_loop": lambda g: dgl.remove_self_loop(g),
    "reorder_graph": lambda g: dgl.reorder_graph(g, "rcmk"),
    "reverse": lambda g: dgl.reverse(g, copy_edata=True),
    "shortest_dist": lambda g: dgl.shortest_dist(g, 0),
    "sort_csc_by_tag": lambda g: dgl.sort_csc_by_tag(g, g.ndata["tag"]),
    "sort_csr_by_tag": lambda g: dgl.sort_csr_by_tag(g, g.ndata["tag"]),
    "svd_pe": lambda g: dgl.svd_pe(g, 2).abs(),
    "to_bfloat16": lambda g: dgl.to_bfloat16(g),
    "to_bidirected": lambda g: dgl.to_bidirected(g, copy_ndata=True),
    "to_double": lambda g: dgl.to_double(g),
    "to_float": lambda g: dgl.to_float(g),
    "to_half": lambda g: dgl.to_half(g),
    "to_simple": lambda g: dgl.to_simple(g, return_counts="n", copy_edata=True),
}

TRANSFORMS = {
    "AddEdge": lambda g: T.AddEdge(0.1)(g).num_edges() > g.num_edges(),
    "AddMetaPaths": lambda g: T.AddMetaPaths({"two": [("_N", "_E", "_N"), ("_N", "_E", "_N")]})(g),
    "AddReverse": lambda g: T.AddReverse(copy_edata=True)(g),
    "AddSelfLoop": lambda g: T.AddSelfLoop()(g),
    "Compose": lambda g: T.Compose([T.RowFeatNormalizer(node_feat_names=["feat"]), T.AddSelfLoop()])(g),
    "DropEdge": lambda g: T.DropEdge(0.5)(g).num_edges() < g.num_edges(),
    "DropNode": lambda g: T.DropNode(0.5)(g).num_nodes() < g.num_nodes(),
    "FeatMask": lambda g: T.FeatMask(p=1.0, node_feat_names=["feat"])(g),
    "GCNNorm": lambda g: T.GCNNorm()(g),
    "GDC": lambda g: T.GDC([0.3, 0.2, 0.1], eps=0.01)(g),
    "HeatKernel": lambda g: T.HeatKernel(eps=0.01)(g),
    "KHopGraph": lambda g: T.KHopGraph(2)(g),
    "LapPE": lambda g: T.LapPE(2, "pe")(g).ndata.pop("pe").abs(),
    "LineGraph": lambda g: T.LineGraph()(g),
    "NodeShuffle": lambda g: (torch.manual_seed(0), T.NodeShuffle()(g))[1].ndata["feat"].sum(),
    "PPR": lambda g: T.PPR(eps=0.01)(g),
    "RandomWalkPE": lambda g: T.RandomWalkPE(3)(g),
    "RemoveSelfLoop": lambda g: T.RemoveSelfLoop()(g),
    "RowFeatNormalizer": lambda g: T.RowFeatNormalizer(node_feat_names=["feat"])(g),
    "SIGNDiffusion": lambda g: T.SIGNDiffusion(2)(g),
    "SVDPE": lambda g: T.SVDPE(2, "pe", random_flip=False)(g).ndata.pop("pe").abs(),
    "ToLevi": lambda g: T.ToLevi()(g),
    "ToSimple": lambda g: T.ToSimple()(g),
}

METHODS = {
    "g.add_edges": _changed("add_edges", [0, 1], [5, 45]),
    "g.add_nodes": _changed("add_nodes", 2),
    "g.remove_edges": _changed("remove_edges", [3, 4]),
    "g.remove_nodes": _changed("remove_nodes", [3, 4]),
    "g.remove_self_loop.add_self_loop": lambda g: g.remove_self_loop().add_self_loop(),
    "g.to_simple": lambda g: g.to_simple(),
    "g.int.add_self_loop": lambda g: g.int().add_self_loop(),
}

OF_RELATIONS = {
    "add_edges": _changed("add_edges", [0], [1], {"w": torch.ones(1)}, "plays"),
    "add_nodes": _changed("add_nodes", 1, None, "user"),
    "AddReverse": lambda g: T.AddReverse()(g),
    "AddSelfLoop": lambda g: T.AddSelfLoop(new_etypes=True)(g),
    "AddMetaPaths": lambda g: T.AddMetaPaths({"x": [("user", "follows", "user"), ("user", "plays", "game")]})(
        g
    ),
    "edge_type_subgraph": lambda g: dgl.edge_type_subgraph(g, ["plays"]),
    "metapath_reachable_graph": lambda g: dgl.metapath_reachable_graph(g, ["follows", "plays"]),
    "node_type_subgraph": lambda g: dgl.node_type_subgraph(g, ["user"]),
    "remove_edges": _changed("remove_edges", [0], "plays"),
    "remove_nodes": _changed("remove_nodes", [0], "user"),
    "remove_self_loop": lambda g: dgl.remove_self_loop(g, etype="follows"),
    "reverse": lambda g: dgl.reverse(g, copy_edata=True),
    "to_homogeneous": lambda g: dgl.to_homogeneous(g, ndata=["feat"]),
    "to_simple": lambda g: dgl.to_simple(g),
}
