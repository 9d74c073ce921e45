"""Golden values for matmul, linear, softmax, log_softmax and cross_entropy, from PyTorch.

Run with a Python that has torch and safetensors; writes next to this file. Everything is computed in f64 from inputs that
are f32 numbers, and stored as f32, so that a difference is the other side's error alone. For every case "<case>.in<i>" are
the inputs, "<case>.out" the result, "<case>.weight" the gradient given to backward, "<case>.grad<i>" the gradients.
"""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(20)
golden = {}


def case(name, fn, *shapes, scale=1.0):
    inputs = [(scale * torch.randn(shape)).double().requires_grad_() for shape in shapes]
    out = fn(*inputs)
    weight = torch.randn(out.shape).double()
    out.backward(weight)
    stored = {"out": out, "weight": weight}
    for i, x in enumerate(inputs):
        stored |= {f"in{i}": x, f"grad{i}": x.grad}
    for key, value in stored.items():
        golden[f"{name}.{key}"] = value.detach().float().contiguous()


case("matmul", torch.matmul, (3, 5, 7), (3, 7, 4))
case("matmul_transposed", lambda a, b: a.mT @ b.mT, (2, 7, 5), (2, 4, 7))
case("matmul_shared", torch.matmul, (3, 5, 7), (7, 4))
case("linear", F.linear, (6, 33), (17, 33), (17,))
case("softmax_last", lambda x: F.softmax(x, -1), (4, 50), scale=3)
case("softmax_middle", lambda x: F.softmax(x, 1), (3, 9, 5), scale=3)
case("log_softmax_last", lambda x: F.log_softmax(x, -1), (4, 50), scale=3)
case("log_softmax_first", lambda x: F.log_softmax(x, 0), (11, 6), scale=3)

targets = torch.randint(0, 23, (12,))
targets[3] = targets[8] = -100
golden["targets"] = targets
for smoothing in (0.0, 0.1):
    for reduction in ("mean", "sum"):
        case(f"cross_entropy_{reduction}_{smoothing}",
             lambda x: F.cross_entropy(x, targets, reduction=reduction, label_smoothing=smoothing), (12, 23), scale=3)

save_file(golden, pathlib.Path(__file__).parent / "linalg.safetensors")
