"""A sample joined with its features: what makes a mini-batch of a SamplerOutput."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gz_pyg._edges import edge_numbers
from gz_pyg._sampler.base import EngineSampler
from gz_pyg._source.protocol import Sampled, Source


class Joiner:
    """Builds the mini-batches of one loader.

    Args:
        sampler: its ``edge_permutation`` names the edges of a sample.
        custom_cls: class of the mini-batches of data that is not in memory.
    """

    def __init__(self, sampler: Any, custom_cls: Any):
        self._sampler, self._custom_cls = sampler, custom_cls

    def __call__(self, out: SamplerOutput | HeteroSamplerOutput, source: Source) -> Any:
        if not isinstance(out, (SamplerOutput, HeteroSamplerOutput)):
            raise TypeError(
                f"a sampler returned a {type(out).__name__}, not a SamplerOutput or HeteroSamplerOutput"
            )
        sampled = self._sampled(out)
        batch = source.join(sampled, self._custom_cls)
        if isinstance(out, SamplerOutput):
            self._name_one_type(batch, out, sampled)
        else:
            self._name_types(batch, out, sampled)
        return batch

    def _sampled(self, out: SamplerOutput | HeteroSamplerOutput) -> Sampled:
        parts: list[Any] = [out.node, out.row, out.col, out.edge, self._sampler.edge_permutation]
        if isinstance(out, SamplerOutput):
            parts = [{None: part} for part in parts]
        nodes, row, col, edge, permutations = parts
        edge, permutations = edge or {}, permutations or {}
        numbers = {t: None if e is None else edge_numbers(e, permutations.get(t)) for t, e in edge.items()}
        stored = self._sampler.stored_edge_types if isinstance(self._sampler, EngineSampler) else ()
        return Sampled(nodes, row, col, numbers, {t: e for t, e in edge.items() if t in stored})

    def _name_one_type(self, batch: Any, out: SamplerOutput, sampled: Sampled) -> None:
        if "n_id" not in batch:
            batch.n_id = out.node
        if sampled.edges[None] is not None and "e_id" not in batch:
            batch.e_id = sampled.edges[None]
        batch.batch = out.batch
        if (importance := getattr(out, "edge_importance", None)) is not None:  # of LABOR
            batch.edge_importance = importance
        batch.num_sampled_nodes = out.num_sampled_nodes
        batch.num_sampled_edges = out.num_sampled_edges
        if out.orig_row is not None and out.orig_col is not None:
            batch._orig_edge_index = torch.stack([out.orig_row, out.orig_col], dim=0)

    def _name_types(self, batch: Any, out: HeteroSamplerOutput, sampled: Sampled) -> None:
        for t, node in out.node.items():
            if "n_id" not in batch[t]:
                batch[t].n_id = node
        for e, numbers in sampled.edges.items():
            if numbers is not None and "e_id" not in batch[e]:
                batch[e].e_id = numbers
        batch.set_value_dict("batch", out.batch)
        if (importance := getattr(out, "edge_importance", None)) is not None:
            batch.set_value_dict("edge_importance", importance)
        batch.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
        batch.set_value_dict("num_sampled_edges", out.num_sampled_edges)
        if out.orig_row is not None and out.orig_col is not None:
            for e in out.orig_row:
                batch[e]._orig_edge_index = torch.stack([out.orig_row[e], out.orig_col[e]], dim=0)
