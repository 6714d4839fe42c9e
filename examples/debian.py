"""The packages of a Debian machine, from the package manager's raw files to a trained heterogeneous model.

`tables` turns /var/lib/dpkg/status into three tables, debian.toml says how they are a graph, and a model
learns the section of a package from its size, its age, what it depends on and who maintains it.
"""

import argparse
import csv
import datetime
import os
import re
import shutil

import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.nn import HeteroConv, SAGEConv

import gz
from gz_pyg import NeighborLoader, load

SPEC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "debian.toml")


def tables(dpkg, out):
    """packages.csv, depends.csv and maintains.csv from a folder such as /var/lib/dpkg."""
    with open(os.path.join(dpkg, "status"), encoding="utf-8") as f:
        records = [
            dict(re.findall(r"^([\w-]+): (.*)$", r, re.M)) for r in f.read().split("\n\n") if r.strip()
        ]
    known = {r["Package"] for r in records}
    packages, depends, maintains = {}, {}, {}
    for r in records:
        name, listed = r["Package"], os.path.join(dpkg, "info", r["Package"] + ".list")
        day = datetime.date.fromtimestamp(os.path.getmtime(listed)) if os.path.exists(listed) else ""
        packages.setdefault(name, (name, r.get("Installed-Size", ""), r.get("Section", "none"), day))
        for part in re.split(r"[,|]", r.get("Depends", "")):
            other = part.split("(")[0].split(":")[0].strip()
            if other in known:  # a virtual package, or an alternative that is not installed, is no node
                depends[name, other] = None
        maintains[r.get("Maintainer", "nobody"), name] = None
    _write(out, "packages.csv", ("package", "size", "section", "installed"), packages.values())
    _write(out, "depends.csv", ("package", "dependency"), depends)
    _write(out, "maintains.csv", ("maintainer", "package"), maintains)


def _write(folder, name, header, rows):
    with open(os.path.join(folder, name), "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f)
        writer.writerow(header)
        writer.writerows(rows)


class Model(torch.nn.Module):
    def __init__(self, maintainers, classes):
        super().__init__()
        self.maintainer = torch.nn.Embedding(maintainers, 16)
        kinds = (("package", "depends", "package"), ("maintainer", "maintains", "package"))
        self.conv = HeteroConv({k: SAGEConv((-1, -1), 32) for k in kinds})
        self.out = torch.nn.Linear(32, classes)

    def forward(self, batch):
        x = {"package": batch["package"].x, "maintainer": self.maintainer(batch["maintainer"].n_id)}
        return self.out(self.conv(x, batch.edge_index_dict)["package"].relu())


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dpkg", default="/var/lib/dpkg", help="a folder with status and info/ in it")
    p.add_argument("--work", default="debian", help="where the tables and the store go")
    p.add_argument("--epochs", type=int, default=20)
    args = p.parse_args()
    seed_everything(1)
    os.makedirs(args.work, exist_ok=True)
    tables(args.dpkg, args.work)
    shutil.copy(SPEC, os.path.join(args.work, "graph.toml"))
    path = os.path.join(args.work, "store")
    print(gz.ingest(path, spec=os.path.join(args.work, "graph.toml"), overwrite=True))

    store, data = gz.open(path), load(path)
    numbers = [
        torch.as_tensor(store.feature(c, "package").get_tensor()).float() for c in ("size", "installed")
    ]
    x = torch.stack([torch.log1p(numbers[0]), numbers[1]], 1)
    data["package"].x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    sections = store.categories("section", "package")
    loader = NeighborLoader(data, num_neighbors=[10], input_nodes="package", batch_size=256, shuffle=True)
    model = Model(store.num_nodes("maintainer"), len(sections))
    with torch.no_grad():  # gives the lazy layers their sizes
        model(next(iter(loader)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, args.epochs + 1):
        total = right = count = 0
        for batch in loader:
            size = batch["package"].batch_size
            out, y = model(batch)[:size], batch["package"].section[:size].long()
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * size, count + size
            right += int((out.argmax(1) == y).sum())
        print(f"epoch {epoch}: loss {total / count:.3f}, accuracy {right / count:.3f}")


if __name__ == "__main__":
    main()
