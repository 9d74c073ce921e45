import torch
from golden import nhwc, normal


def cases(golden):
    golden.case("reshape", lambda x: x.reshape(6, -1), normal(3, 4, 5))
    golden.case("flatten", lambda x: x.flatten(1), normal(3, 4, 5))
    golden.case("slice", lambda x: x[1:4], normal(6, 5))
    golden.case("concat", lambda a, b: torch.cat([a, b], 1), normal(3, 4, 5), normal(3, 2, 5))
    golden.case("to_nhwc", nhwc, normal(2, 3, 5, 7))
    golden.case("transpose", lambda x: x.transpose(0, 2), normal(3, 4, 5))
