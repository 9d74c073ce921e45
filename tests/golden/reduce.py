import torch
from golden import normal


def cases(golden):
    golden.case("sum_all", torch.sum, normal(5, 6, 7))
    golden.case("mean_all", torch.mean, normal(5, 6, 7))
    golden.case("sum_middle", lambda x: x.sum(1), normal(5, 6, 7))
    golden.case("sum_outer_inner", lambda x: x.sum((0, 2), keepdim=True), normal(5, 6, 7))
    golden.case("mean_last", lambda x: x.mean(-1), normal(5, 6, 7))
    golden.case("mean_long", lambda x: x.mean((0, 1)), normal(40, 30, 3))
    golden.case("max_middle", lambda x: x.amax(1), normal(5, 6, 7))
    golden.case("max_last", lambda x: x.max(-1, keepdim=True).values, normal(5, 6, 7))
