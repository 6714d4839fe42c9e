"""gz_pyg.LightningNodeData and LightningLinkData: PyTorch Lightning's Trainer on a store."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_geometric.data.lightning
from pyg_batches import check_heterogeneous, check_homogeneous
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import gz_pyg

pl = pytest.importorskip(
    "pytorch_lightning", reason="pytorch-lightning is not installed; `make test` does it"
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Classifier(pl.LightningModule):
    """A layer of GraphSAGE; keeps the batches it saw."""

    def __init__(self):
        super().__init__()
        self.conv = SAGEConv(8, 5)
        self.seen = {"train": [], "val": [], "test": [], "predict": []}

    def _loss(self, batch, stage):
        self.seen[stage].append(batch)
        out = self.conv(batch.x, batch.edge_index)[: batch.batch_size]
        return torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])

    def training_step(self, batch):
        return self._loss(batch, "train")

    def validation_step(self, batch):
        self._loss(batch, "val")

    def test_step(self, batch):
        self.log("test_loss", self._loss(batch, "test"), batch_size=batch.batch_size)

    def predict_step(self, batch):
        self._loss(batch, "predict")
        return batch.input_id

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(tmp_path, **options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet["enable_model_summary"] = False
    return pl.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet, **options)


@pytest.fixture
def split(homogeneous):
    data = Data(**homogeneous.to_dict())
    order = torch.arange(100)
    data.train_mask, data.val_mask, data.test_mask = order < 60, (order >= 60) & (order < 80), order >= 80
    return data


def run(data, tmp_path):
    seed_everything(4)
    module = gz_pyg.LightningNodeData(
        data, input_pred_nodes=torch.arange(10), loader="neighbor", num_neighbors=[4, 3], batch_size=16
    )
    assert isinstance(module, torch_geometric.data.lightning.LightningNodeData)
    model = Classifier()
    fit = trainer(tmp_path, max_epochs=2, num_sanity_val_steps=0)
    fit.fit(model, datamodule=module)
    loss = fit.test(model, datamodule=module, verbose=False)[0]["test_loss"]
    predicted = fit.predict(model, datamodule=module)
    return model, loss, predicted


@pytest.mark.slow
def test_a_trainer_fits_validates_tests_and_predicts(split, tmp_path):
    model, loss, predicted = run(split, tmp_path)
    store = gz_pyg.save(split, tmp_path / "store")
    for data in (gz_pyg.load(store), store):
        on_store, stored_loss, stored_predicted = run(data, tmp_path)
        assert stored_loss == loss
        assert torch.equal(torch.cat(stored_predicted), torch.cat(predicted))
        for stage, batches in on_store.seen.items():
            assert len(batches) == len(model.seen[stage]) > 0
            for a, b in zip(batches, model.seen[stage], strict=True):
                check_homogeneous(a, split)  # edge attributes among the rest
                assert torch.equal(a.n_id, b.n_id)
                assert torch.equal(a.e_id, b.e_id)
    trained = torch.cat([b.input_id for b in model.seen["train"]])
    assert torch.equal(trained.sort()[0], torch.arange(60).repeat_interleave(2))
    validated = torch.cat([b.input_id for b in model.seen["val"]])
    assert torch.equal(validated.unique(), torch.arange(60, 80))


def test_evaluation_has_options_of_its_own(split):
    module = gz_pyg.LightningNodeData(
        split,
        num_neighbors=[2],
        batch_size=4,
        subgraph_type="induced",
        prefetch=0,
        eval_loader_kwargs={"num_neighbors": [-1], "batch_size": 20},
    )
    train, val = module.train_dataloader(), module.val_dataloader()
    assert isinstance(train, gz_pyg.NodeLoader)
    assert (train.num_neighbors.values, train.batch_size, train.prefetch) == ([2], 4, 0)
    assert (val.num_neighbors.values, val.batch_size) == ([-1], 20)
    check_homogeneous(next(iter(val)), split)


def test_a_sampler_of_your_own_and_the_whole_graph(split):
    sampler = gz_pyg.NeighborSampler(split, [3])
    module = gz_pyg.LightningNodeData(split, node_sampler=sampler, batch_size=8)
    assert module.train_dataloader().node_sampler is sampler
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = gz_pyg.LightningNodeData(split, loader="full")
    assert next(iter(module.train_dataloader())) is split


@pytest.mark.slow
def test_links_of_several_types(heterogeneous, heterogeneous_path, tmp_path):
    edge_type = ("author", "writes", "paper")

    class Links(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.author, self.paper = torch.nn.Linear(6, 4), torch.nn.Linear(4, 4)
            self.seen = []

        def training_step(self, batch):
            self.seen.append(batch)
            src, dst = batch[edge_type].edge_label_index
            scores = (self.author(batch["author"].x)[src] * self.paper(batch["paper"].x)[dst]).sum(-1)
            labels = batch[edge_type].edge_label
            return torch.nn.functional.binary_cross_entropy_with_logits(scores, labels)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def run(data):
        seed_everything(4)
        module = gz_pyg.LightningLinkData(
            data,
            input_train_edges=(edge_type, None),
            loader="neighbor",
            num_neighbors=[4],
            neg_sampling="binary",
            batch_size=250,
        )
        model = Links()
        trainer(tmp_path, max_epochs=1).fit(model, datamodule=module)
        return model.seen

    want = run(heterogeneous)
    assert len(want) == 4
    for a, b in zip(run(gz_pyg.load(heterogeneous_path)), want, strict=True):
        check_heterogeneous(a, heterogeneous)
        assert torch.equal(a[edge_type].input_id, b[edge_type].input_id)
        assert torch.equal(a["paper"].n_id, b["paper"].n_id)


@pytest.mark.slow
def test_two_processes_share_an_epoch(split, tmp_path):
    """Lightning makes the loaders anew, with a sampler of indices for each process."""
    module = gz_pyg.LightningNodeData(
        gz_pyg.load(gz_pyg.save(split, tmp_path / "store")), num_neighbors=[4], batch_size=10
    )
    loader = module.train_dataloader()
    from lightning_fabric.utilities.data import _get_dataloader_init_args_and_kwargs
    from torch.utils.data import DistributedSampler

    parts = []
    for rank in range(2):
        sampler = DistributedSampler(loader.dataset, 2, rank, shuffle=False)
        args, kwargs = _get_dataloader_init_args_and_kwargs(loader, sampler)
        batches = list(type(loader)(*args, **kwargs))
        for batch in batches:
            check_homogeneous(batch, split)
        parts.append(torch.cat([b.input_id for b in batches]))
    assert torch.equal(torch.cat(parts).sort()[0], torch.arange(60))
