import torch
from golden import away_from_zero, normal


def cases(golden):
    for name, op in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)]:
        golden.case(f"{name}_same", op, normal(7, 9), away_from_zero(7, 9))
        golden.case(f"{name}_trailing", op, normal(4, 5, 9), away_from_zero(9))
        golden.case(f"{name}_both", op, normal(3, 1, 5), away_from_zero(4, 1))
        golden.case(f"{name}_with_scalar", op, normal(6, 7), away_from_zero())
    golden.case("relu", torch.relu, normal(9, 11))
    golden.case("scale", lambda x: x * -2.5, normal(5, 3))
    golden.case("add_scalar", lambda x: x + 1.25, normal(5, 3))
    golden.case("neg", torch.neg, normal(5, 3))
