#!/usr/bin/env python3
"""Full training steps of Lockstep beside PyTorch's: same model, batch, threads and machine, in one run.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch torchvision
    bazel build --config=opt --config=avx512 //bench:train_step
    /tmp/torch/bin/python bench/compare_torch.py

The two take turns step by step, in random order, because a shared machine drifts more between minutes than the two
differ. PyTorch runs in both memory formats; the ratio is against the better one. Both sides run forward, cross-entropy,
backward and SGD with momentum on the same synthetic batch, in f32 and in bf16 (Autocast; torch.autocast).
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time

CASES = {
    "resnet18": dict(model="resnet18", size=32, batch=64, classes=10),
    "resnet50": dict(model="resnet50", size=224, batch=8, classes=1000),
}


class Lockstep:
    """bench/train_step as a child: one step for each line it reads, its milliseconds as the answer."""

    def __init__(self, binary, case, threads, precision="f32"):
        command = [binary, "--threads", str(threads), "--way", f"local:{precision}" if precision == "bf16" else "local"]
        for key, value in case.items():
            command += [f"--{key}", str(value)]
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def step(self):
        self.child.stdin.write("0\n")  # the number of the way; there is one
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def autocast(side):
    """What the forward of a Torch side runs in."""
    return side.torch.autocast("cpu", side.torch.bfloat16) if side.mixed else contextlib.nullcontext()


class Torch:
    def __init__(self, case, threads, channels_last, precision):
        import torch
        import torchvision

        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.torch = torch
        self.mixed = precision == "bf16"
        model = getattr(torchvision.models, case["model"])(num_classes=case["classes"])
        if case["size"] <= 64:  # as Lockstep's
            model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
            model.maxpool = torch.nn.Identity()
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.model = model.to(memory_format=layout).train()
        x = torch.randn(case["batch"], 3, case["size"], case["size"])
        self.x = x.to(memory_format=layout)
        self.y = torch.randint(0, case["classes"], (case["batch"],))
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad()
        with autocast(self):
            loss = self.loss(self.model(self.x), self.y)
        after_forward = time.perf_counter()
        loss.backward()
        after_backward = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        return dict(forward=1e3 * (after_forward - start), backward=1e3 * (after_backward - after_forward),
                    optimizer=1e3 * (end - after_backward), total=1e3 * (end - start))

    def close(self):
        pass


def take_turns(sides, warmup, rounds, name):
    """The times of each side's steps, by its name: some to warm up, then `rounds` in random order. Closes the sides."""
    for side in sides.values():
        for _ in range(warmup):
            side.step()
    times = {side: [] for side in sides}
    for done in range(rounds):
        for side in random.sample(list(sides), len(sides)):
            times[side].append(sides[side].step())
            time.sleep(0.02)  # lets the other side's idle threads go to sleep
        print(f"\r{name}: round {done + 1}/{rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for side in sides.values():
        side.close()
    return times


def tell_ratios(precisions, total, sides):
    """Lockstep's step beside the fastest of PyTorch's of the same precision."""
    for precision in precisions:
        best = min((side for side in sides if side.startswith("torch") and side.endswith(precision)), key=total)
        print(f"lockstep {precision} / {best}: {total(f'lockstep {precision}') / total(best):.3f}")


def run(name, case, args):
    sides = {}
    for precision in args.precisions:
        sides[f"lockstep {precision}"] = Lockstep(args.binary, case, args.threads, precision)
        sides[f"torch nchw {precision}"] = Torch(case, args.threads, False, precision)
        sides[f"torch channels_last {precision}"] = Torch(case, args.threads, True, precision)
    times = take_turns(sides, args.warmup, args.rounds, name)

    def median(side, part):
        return statistics.median(t[part] for t in times[side])

    print(f"\n{name}, {case['size']}x{case['size']}, batch {case['batch']}, {args.threads} threads, "
          f"{args.rounds} interleaved rounds (ms, median; p90)\n")
    print("| | forward | backward | optimizer | step | p90 |")
    print("|---|---|---|---|---|---|")
    for side in sides:
        p90 = sorted(t["total"] for t in times[side])[int(0.9 * (args.rounds - 1))]
        parts = " | ".join(f"{median(side, part):.1f}" for part in ("forward", "backward", "optimizer", "total"))
        print(f"| {side} | {parts} | {p90:.1f} |")
    print()
    tell_ratios(args.precisions, lambda side: median(side, "total"), sides)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bazel-bin/bench/train_step")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--precisions", nargs="+", default=["f32"], choices=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    print(f"PyTorch {torch.__version__}")
    for name in args.cases:
        run(name, CASES[name], args)


if __name__ == "__main__":
    main()
