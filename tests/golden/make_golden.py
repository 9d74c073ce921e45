"""Writes the golden values of the ops, one file for each family, next to this script.

Run with a Python that has torch and safetensors: python tests/golden/make_golden.py [family ...]
The values in the repository come from torch 2.15.0.
"""
import importlib
import sys

import torch

import golden

FAMILIES = ["conv", "elementwise", "layout", "norm", "pool", "reduce", "unary", "index", "sample_norm", "losses", "attention",
            "layers"]

if __name__ == "__main__":
    torch.set_num_threads(1)
    for family in sys.argv[1:] or FAMILIES:
        torch.manual_seed(1 + FAMILIES.index(family))
        values = golden.Golden()
        importlib.import_module(family).cases(values)
        values.save(family)
