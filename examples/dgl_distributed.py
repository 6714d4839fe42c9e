"""From a store to a model that dgl.distributed trained, and its embeddings back in the store.

    gz partition papers parts --parts 2
    python examples/dgl_distributed.py parts/papers.json --epochs 5 --embeddings emb.npy
    gz add papers --features emb=emb.npy --by parts

By default a server for each part and the trainers run here, on the loopback interface, for a first try. On a
cluster every machine runs one server and its trainers, with the addresses of all servers in a file (one "IP
PORT" a line), and the parts in a folder they share or were copied to:

    python dgl_distributed.py parts/papers.json --ips ips.txt --role server --rank I
    python dgl_distributed.py parts/papers.json --ips ips.txt --role trainer --rank J --meet HOST:PORT

The graph has node data "feat", "label", "train_mask" and "test_mask". When a process dies, the launcher ends
the others and says which it was: by itself a server of DGL waits for ever.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import socket
import sys
import tempfile
from pathlib import Path

import dgl
import numpy as np
import torch
import torch.nn.functional as F

import gz_dgl  # noqa: F401 - before dgl.distributed: it lets DGL work with torch versions it has no library for


class SAGE(torch.nn.Module):
    def __init__(self, in_size, hidden, out_size):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [dgl.nn.SAGEConv(in_size, hidden, "mean"), dgl.nn.SAGEConv(hidden, out_size, "mean")]
        )

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x)
            if i + 1 < len(self.layers):
                x = F.dropout(F.relu(x), 0.5, self.training)
        return x


def serve(args, rank):
    """One part, for all trainers, until they are done."""
    server = dgl.distributed.DistGraphServer(
        rank, args.ips, 1, args.trainers, args.config, disable_shared_mem=True, graph_format=["csc", "coo"]
    )
    server.start()


def batches(g, nodes, fanouts, args, shuffle=False):
    sampler = dgl.dataloading.NeighborSampler(fanouts)
    loader = dgl.dataloading.DistNodeDataLoader(
        g, nodes, sampler, batch_size=args.batch_size, shuffle=shuffle, drop_last=False
    )
    for inputs, outputs, blocks in loader:
        yield outputs, blocks, g.ndata["feat"][inputs]


def train(args, rank):
    dgl.distributed.initialize(args.ips)
    host, port = args.meet.split(":")
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=args.trainers
    )
    # The part of the server on the same machine.
    book = dgl.distributed.load_partition_book(args.config, dgl.distributed.rpc.get_machine_id())[0]
    g = dgl.distributed.DistGraph(args.graph["graph_name"], gpb=book)
    # As many seeds on every trainer, give or take one: none waits for a batch that another does not have.
    own = {
        k: dgl.distributed.node_split(g.ndata[k], book, force_even=True) for k in ("train_mask", "test_mask")
    }
    labels = g.ndata["label"]
    classes = int(labels[torch.arange(g.num_nodes())].max()) + 1 if args.classes is None else args.classes

    torch.manual_seed(args.seed)  # the same start everywhere
    model = torch.nn.parallel.DistributedDataParallel(SAGE(g.ndata["feat"].shape[1], 64, classes))
    torch.manual_seed(args.seed + 1 + rank)
    dgl.seed(args.seed + 1 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        model.train()
        # Trainers may differ by one seed and so by one batch: those that are done wait for the others here.
        with model.join():
            for outputs, blocks, x in batches(g, own["train_mask"], [10, 10], args, shuffle=True):
                loss = F.cross_entropy(model(blocks, x), labels[outputs].long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {float(loss.detach()):.4f}", flush=True)
    evaluate(model.module, g, own["test_mask"], labels, args, rank)
    if args.embeddings:
        embed(model.module, g, args, rank)
    del model
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    dgl.distributed.exit_client()


@torch.no_grad()
def evaluate(model, g, nodes, labels, args, rank):
    model.eval()
    right = torch.zeros(2)
    for outputs, blocks, x in batches(g, nodes, [-1, -1], args):
        right += torch.tensor([float((model(blocks, x).argmax(1) == labels[outputs]).sum()), len(outputs)])
    torch.distributed.all_reduce(right)
    if rank == 0:
        print(f"test accuracy {float(right[0] / right[1]):.4f} of {int(right[1])} nodes", flush=True)


@torch.no_grad()
def embed(model, g, args, rank):
    """Every trainer computes its share of the nodes; the rows are in the order of DGL's ids."""
    model.eval()
    width = model.layers[-1].fc_neigh.out_features
    out = dgl.distributed.DistTensor((g.num_nodes(), width), torch.float32, "embeddings")
    for outputs, blocks, x in batches(g, torch.arange(rank, g.num_nodes(), args.trainers), [-1, -1], args):
        out[outputs] = model(blocks, x)
    torch.distributed.barrier()
    if rank == 0:
        rows = np.lib.format.open_memmap(args.embeddings, "w+", np.float32, (g.num_nodes(), width))
        for a in range(0, g.num_nodes(), 1 << 16):
            b = min(g.num_nodes(), a + (1 << 16))
            rows[a:b] = out[torch.arange(a, b)].numpy()
        rows.flush()


# ---- processes ----


def run(role, args, rank):
    torch.set_num_threads(1)
    os.environ["DGL_DIST_MODE"], os.environ["DGL_ROLE"] = (
        "distributed",
        "client" if role == "trainer" else role,
    )
    if args.shared:
        play_machine(rank % args.graph["num_parts"], args.shared)
    train(args, rank) if role == "trainer" else serve(args, rank)


def play_machine(number, prefix):
    """One machine as several. DGL tells machines apart by their address, and names the memory that a server
    shares with the trainers beside it by the column alone: servers on one machine would write into each
    other's."""
    kvstore = dgl.distributed.kvstore
    make = kvstore.empty_shared_mem
    kvstore.empty_shared_mem = lambda name, *more: make(f"{prefix}-{number}-{name}", *more)
    dgl.distributed.rpc_client.get_local_machine_id = lambda _: number


def free_ports(count):
    """Ports of the loopback interface that nobody has; another process may still be faster to take them."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def launch(args):
    """Servers and trainers on this machine. Ends all when one fails; the exit code says whether one did."""
    servers = args.graph["num_parts"]
    *ports, meet = free_ports(servers + 1)
    fork = multiprocessing.get_context(
        "fork"
    )  # nothing has run in this process yet, and torch is imported once
    with tempfile.TemporaryDirectory() as folder:
        args.ips, args.meet = os.path.join(folder, "ips.txt"), f"127.0.0.1:{meet}"
        args.shared = f"gz-{os.getpid()}-{meet}"
        with open(args.ips, "w") as f:
            f.writelines(f"127.0.0.1 {port}\n" for port in ports)
        roles = [("server", i) for i in range(servers)] + [("trainer", i) for i in range(args.trainers)]
        running = {}
        for role, rank in roles:
            process = fork.Process(target=run, args=(role, args, rank), name=f"{role} {rank}", daemon=True)
            process.start()
            running[process.sentinel] = process
            print(f"{process.name} is process {process.pid}", flush=True)
        failed = None
        while running and failed is None:
            for sentinel in multiprocessing.connection.wait(list(running)):
                process = running.pop(sentinel)
                process.join()
                if process.exitcode and failed is None:
                    code = process.exitcode
                    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                    failed = f"{process.name} {how}; the others are stopped"
        for process in running.values():
            process.kill()
            process.join()
        for left in Path("/dev/shm").glob(f"*{args.shared}-*"):  # by those that were killed
            left.unlink(missing_ok=True)
    if failed:
        sys.exit(failed)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="the JSON that gz partition wrote")
    parser.add_argument("--trainers", type=int, default=2, help="of all machines")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--classes", type=int, help="by default all labels are looked at")
    parser.add_argument("--embeddings", help="an .npy to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--role", choices=["server", "trainer"], help="one process of a cluster")
    parser.add_argument("--rank", type=int, help="which one")
    parser.add_argument("--ips", help='"IP PORT" of each server')
    parser.add_argument("--meet", help="HOST:PORT at which trainer 0 waits for the others")
    args = parser.parse_args()
    with open(args.config) as f:
        args.graph = json.load(f)
    args.shared = None
    run(args.role, args, args.rank) if args.role else launch(args)


if __name__ == "__main__":
    main()
