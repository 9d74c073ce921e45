import torch
from golden import nchw, nhwc, normal


def cases(golden):
    F = torch.nn.functional
    golden.case("max", lambda x: nhwc(F.max_pool2d(nchw(x), 2)), normal(2, 6, 8, 3))
    golden.case("max_overlapping", lambda x: nhwc(F.max_pool2d(nchw(x), 3, 2, 1)), normal(2, 7, 9, 3))
    golden.case("average", lambda x: nhwc(F.avg_pool2d(nchw(x), 2)), normal(2, 6, 8, 3))
    golden.case("average_padded", lambda x: nhwc(F.avg_pool2d(nchw(x), 3, 2, 1)), normal(2, 7, 9, 3))
    golden.case("global_average", lambda x: x.mean((1, 2)), normal(2, 5, 7, 3))
