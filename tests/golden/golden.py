"""What the files of golden values have in common.

Each family of ops has a file <family>.py here with a function cases(golden) that adds cases; make_golden.py lists the
families. A case is one call of a PyTorch function: its inputs, its result, a random gradient of the result and the
gradients of the inputs that follow from it. Inputs are f32 numbers; everything else is computed from them in f64 and
stored as f32, so that a difference is the other side's error alone.
"""
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


def nchw(x):
    """From this project's layout of images (and of convolution weights) to PyTorch's."""
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def normal(*shape):
    return torch.randn(shape)


def away_from_zero(*shape):
    """For divisors: magnitudes from 0.5 to 2, either sign."""
    return torch.empty(shape).uniform_(0.5, 2) * torch.where(torch.rand(shape) < 0.5, -1.0, 1.0)


class Golden:
    """The cases of one file."""

    def __init__(self):
        self.tensors = {}

    def case(self, name, fn, *inputs, **extra):
        """Adds fn(*inputs) as `name`. `extra` tensors, which have no gradient, are stored and handed to fn by name;
        what fn changes in place in them is stored as after.<name>."""
        leaves = [x.double().requires_grad_() for x in inputs]
        arguments = {key: x.double().clone() if x.is_floating_point() else x for key, x in extra.items()}
        result = fn(*leaves, **arguments)
        grad = normal(*result.shape)
        result.backward(grad.double())
        self._add(name, "result", result)
        self._add(name, "grad_result", grad)
        for i, (x, leaf) in enumerate(zip(inputs, leaves)):
            self._add(name, f"input{i}", x)
            self._add(name, f"grad{i}", leaf.grad)
        for key, x in extra.items():
            self._add(name, key, x)
            if x.is_floating_point():
                self._add(name, "after." + key, arguments[key])

    def _add(self, name, what, tensor):
        assert f"{name}.{what}" not in self.tensors, f"two cases are named {name}"
        tensor = tensor.detach()
        tensor = tensor.float() if tensor.is_floating_point() else tensor
        self.tensors[f"{name}.{what}"] = tensor.contiguous().clone()

    def save(self, family):
        save_file(self.tensors, HERE / f"{family}.safetensors")
