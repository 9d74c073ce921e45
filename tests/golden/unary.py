import torch
from golden import normal

F = torch.nn.functional


def cases(golden):
    for name, fn in [("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("sigmoid", torch.sigmoid),
                     ("tanh", torch.tanh), ("silu", F.silu), ("exp", torch.exp)]:
        golden.case(name, fn, 2 * normal(9, 37))
    for name, fn in [("log", torch.log), ("sqrt", torch.sqrt)]:
        golden.case(name, fn, torch.empty(9, 37).uniform_(0.05, 4))
