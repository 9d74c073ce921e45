#!/usr/bin/env python3
"""The layers of ResNet-18 (3x3 stem, 32x32, batch 64) and ResNet-50 (224x224, batch 8) beside PyTorch's, one by one.

    bazel build --config=opt --config=avx512 //bench:conv_layers
    /tmp/torch/bin/python bench/conv_layers.py            # a venv with torch

For every distinct layer the two take turns, run by run; PyTorch in both memory formats. A row gives the medians in
milliseconds, how often the network has the layer, and ours over PyTorch's better format; the last rows weigh all layers
by how often they occur. Normalisation is fused with ReLU (and the residual) here and three operators there.
"""

import argparse
import collections
import os
import statistics
import subprocess
import time

PASSES = {"conv": ["forward", "data", "weight"], "norm": ["forward", "backward"], "pool": ["forward", "backward"]}


def resnet(depth, batch, size):
    """Counts of the distinct layers, as lines for the child."""
    layers = collections.Counter()

    def conv(h, i, o, k, stride):
        layers[f"conv {batch} {h} {h} {i} {o} {k} {stride} {k // 2}"] += 1
        return (h + 2 * (k // 2) - k) // stride + 1

    def norm(h, c, residual):
        layers[f"norm {batch} {h} {h} {c} {int(residual)}"] += 1

    if size == 32:
        h = conv(size, 3, 64, 3, 1)
        norm(h, 64, False)
    else:
        h = conv(size, 3, 64, 7, 2)
        norm(h, 64, False)
        layers[f"pool {batch} {h} {h} 64 3 2 1"] += 1
        h = (h + 2 - 3) // 2 + 1
    bottleneck = depth == 50
    channels = 64
    for stage, blocks in enumerate([3, 4, 6, 3] if bottleneck else [2, 2, 2, 2]):
        width = 64 << stage
        out = width * 4 if bottleneck else width
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            if stride != 1 or channels != out:
                conv(h, channels, out, 1, stride)
                norm((h - 1) // stride + 1, out, False)
            if bottleneck:
                conv(h, channels, width, 1, 1)
                norm(h, width, False)
                h = conv(h, width, width, 3, stride)
                norm(h, width, False)
                conv(h, width, out, 1, 1)
            else:
                h = conv(h, channels, width, 3, stride)
                norm(h, width, False)
                conv(h, width, out, 3, 1)
            norm(h, out, True)
            channels = out
    return layers


class Torch:
    """One layer, in one memory format."""

    clock = time.perf_counter

    def __init__(self, line, channels_last):
        import torch

        self.torch = torch
        kind, *sizes = line.split()
        sizes = [int(s) for s in sizes]
        memory_format = torch.channels_last if channels_last else torch.contiguous_format
        n, h, w, c = sizes[:4]
        image = lambda *s: torch.randn(*s).to(memory_format=memory_format)
        x = image(n, c, h, w)
        self.passes = getattr(self, kind)(image, x, c, sizes[4:])
        self()

    def conv(self, image, x, c, sizes):
        out, k, stride, padding = sizes
        weight = image(out, c, k, k)
        arguments = ([stride, stride], [padding, padding], [1, 1])
        grad = self.torch.conv2d(x, weight, None, *arguments)
        backward = self.torch.ops.aten.convolution_backward

        def gradient(*wanted):
            return backward(grad, x, weight, None, *arguments, False, [0, 0], 1, wanted)

        return [lambda: self.torch.conv2d(x, weight, None, *arguments), lambda: gradient(True, False, False),
                lambda: gradient(False, True, False)]

    def graph(self, forward, inputs, grad):
        for tensor in inputs:
            tensor.requires_grad_(True)
        held = []

        def ahead():
            held[:] = [forward()]

        def back():
            self.torch.autograd.grad(held[0], inputs, grad)

        return [ahead, back]

    def norm(self, image, x, c, sizes):
        weight, bias, mean = self.torch.rand(c), self.torch.rand(c), self.torch.zeros(c)
        var = self.torch.ones(c)
        residual = image(*x.shape) if sizes[0] else None
        inputs = [x, weight, bias] + ([residual] if sizes[0] else [])

        def forward():
            y = self.torch.nn.functional.batch_norm(x, mean, var, weight, bias, True, 0.1, 1e-5)
            if residual is not None:
                y += residual
            return self.torch.relu_(y)

        return self.graph(forward, inputs, image(*x.shape))

    def pool(self, image, x, c, sizes):
        def forward():
            return self.torch.nn.functional.max_pool2d(x, *sizes)

        return self.graph(forward, [x], forward().clone())

    def __call__(self):
        times = []
        for run in self.passes:
            begin = Torch.clock()
            run()
            times.append((Torch.clock() - begin) * 1e3)
        return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="bazel-bin/bench/conv_layers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: the processes' CPU time, for a busy machine; use it with --threads 1")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="run layers whose line contains this")
    parser.add_argument("--models", nargs="*", default=["resnet18", "resnet50"])
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.clock == "cpu":
        Torch.clock = time.process_time
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    child = subprocess.Popen([arguments.binary, arguments.clock], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=environment)

    def ours(line):
        child.stdin.write(line + "\n")
        child.stdin.flush()
        return [float(t) for t in child.stdout.readline().split()]

    models = {"resnet18": resnet(18, 64, 32), "resnet50": resnet(50, 8, 224)}
    for name in arguments.models:
        totals = collections.defaultdict(lambda: [0.0, 0.0])
        print(f"{name:40} {'pass':8} count    ours    last contig.  ratio")
        for line, count in models[name].items():
            if arguments.only not in line:
                continue
            formats = [Torch(line, True), Torch(line, False)]
            ours(line)
            samples = [[], [], []]
            for _ in range(arguments.rounds):
                for sample, run in zip(samples, [lambda: ours(line)] + formats):
                    sample.append(run())
            for i, passed in enumerate(PASSES[line.split()[0]]):
                mine, last, contiguous = (statistics.median(run[i] for run in sample) for sample in samples)
                total = totals[line.split()[0] + " " + passed]
                total[0] += count * mine
                total[1] += count * min(last, contiguous)
                print(f"{line:40} {passed:8} {count:5} {mine:7.2f} {last:7.2f} {contiguous:7.2f} "
                      f"{mine / min(last, contiguous):6.2f}", flush=True)
        totals["all"] = [sum(t[i] for t in totals.values()) for i in (0, 1)]
        for what, (mine, theirs) in totals.items():
            print(f"{name:20} {what:20} {mine:8.1f} ms, PyTorch's better format {theirs:8.1f} ms: {mine / theirs:.2f}")
    child.stdin.close()
    child.wait()


if __name__ == "__main__":
    main()
