#!/usr/bin/env python3
"""Data-parallel training steps of Lockstep beside PyTorch DDP's: same model, batch, threads, ranks and link, in one run.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch torchvision
    bazel build --config=opt --config=avx512 //bench:train_step
    OMP_NUM_THREADS=1 bench/shaped_link.sh 1gbit -- /tmp/torch/bin/python bench/compare_ddp.py

Runs as one of the ranks that a launcher has started. Each rank holds PyTorch's replicas itself and Lockstep's in a child.
All ways take turns step by step, in a random order that is the same on every rank, and all ranks begin each step
together. A step takes as long as on its slowest rank. Both sides run forward, cross-entropy, backward and SGD with
momentum on synthetic images in f32 over Gloo; PyTorch in the memory formats of --layouts (channels_last by itself, the
faster one for convolutions), with each bucket size, and the ratio is against the best of them.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time


class Lockstep:
    """bench/train_step: all of Lockstep's ways in one child."""

    def __init__(self, args, ways):
        command = [args.binary, "--threads", str(args.threads), "--model", args.model,
                   "--size", str(args.size), "--batch", str(args.batch), "--classes", str(args.classes)]
        for way in ways:
            command += ["--way", way]
        port = str(int(os.environ["MASTER_PORT"]) + 1)  # PyTorch's store has the other one
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), MASTER_PORT=port)
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=environment)

    def step(self, way):
        self.child.stdin.write(f"{way}\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:  # it has said why on standard error
            sys.exit(f"compare_ddp: {self.child.args[0]} ended with exit code {self.child.wait()}")
        return json.loads(answer)["total"]


class Torch:
    def __init__(self, args, cap, channels_last, ddp):
        import torch
        import torchvision

        torch.manual_seed(1)
        model = getattr(torchvision.models, args.model)(num_classes=args.classes)
        if args.size <= 64:  # as Lockstep's
            model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
            model.maxpool = torch.nn.Identity()
        layout = torch.channels_last if channels_last else torch.contiguous_format
        model = model.to(memory_format=layout).train()
        self.model = ddp(model, bucket_cap_mb=cap, gradient_as_bucket_view=True) if cap else model
        x = torch.randn(args.batch, 3, args.size, args.size)
        self.x = x.to(memory_format=layout)
        self.y = torch.randint(0, args.classes, (args.batch,))
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.loss(self.model(self.x), self.y).backward()
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - start)


def contenders(args):
    """Name -> a function that takes one step and returns its milliseconds."""
    from torch.nn.parallel import DistributedDataParallel

    ways = ["local", "naive"] + [f"{mode}:{cap:g}" for mode in ("bucketed", "overlapped") for cap in args.caps]
    lockstep = Lockstep(args, ways)
    steps = {f"lockstep {way}": (lambda i=i: lockstep.step(i)) for i, way in enumerate(ways)}
    for layout in args.layouts:
        last = layout == "channels_last"
        steps[f"torch {layout} local"] = Torch(args, None, last, DistributedDataParallel).step
        for cap in args.caps:
            steps[f"torch {layout} ddp:{cap:g}"] = Torch(args, cap, last, DistributedDataParallel).step
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bazel-bin/bench/train_step")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--caps", type=float, nargs="+", default=[1, 5, 10, 25, 50])
    parser.add_argument("--layouts", nargs="+", default=["channels_last"], choices=["nchw", "channels_last"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--json", help="write the figures to this file, too")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    steps = contenders(args)
    order = list(steps)
    dice = random.Random(1)  # the same on every rank
    times = {name: [] for name in steps}
    for done in range(-args.warmup, args.rounds):
        dice.shuffle(order)
        for name in order:
            dist.barrier()
            ms = torch.tensor(steps[name]())
            dist.all_reduce(ms, dist.ReduceOp.MAX)
            if done >= 0:
                times[name].append(ms.item())
        if rank == 0:
            print(f"\rround {done + args.warmup + 1}/{args.warmup + args.rounds}", end="", file=sys.stderr, flush=True)
    dist.barrier()
    if rank != 0:
        return
    median = {name: statistics.median(t) for name, t in times.items()}
    print(f"\n\nPyTorch {torch.__version__}; {args.model}, {args.size}x{args.size}, batch {args.batch} on each of "
          f"{dist.get_world_size()} ranks x {args.threads} thread(s), f32; medians of {args.rounds} steps in turn\n")
    print("| | step, ms | p90 |\n|---|---|---|")
    for name, t in times.items():
        print(f"| {name} | {median[name]:.1f} | {sorted(t)[math.ceil(0.9 * len(t)) - 1]:.1f} |")
    best = {side: min((n for n in median if n.startswith(side) and mode in n), key=median.get)
            for side, mode in (("lockstep", "overlapped"), ("torch", "ddp"))}
    ratio = median[best["lockstep"]] / median[best["torch"]]
    print(f"\n{best['lockstep']} / {best['torch']}: {ratio:.3f}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(dict(settings=vars(args), torch=torch.__version__, steps=times, ratio=ratio), out, indent=1)


if __name__ == "__main__":
    main()
