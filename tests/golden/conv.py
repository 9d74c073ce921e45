import torch
from golden import nchw, nhwc, normal


def cases(golden):
    def conv(**options):
        return lambda x, weight, *bias: nhwc(torch.nn.functional.conv2d(nchw(x), nchw(weight), *bias, **options))

    golden.case("plain", conv(), normal(2, 6, 7, 3), normal(5, 3, 3, 3), normal(5))
    golden.case("one_by_one", conv(), normal(2, 6, 7, 3), normal(5, 1, 1, 3))
    golden.case("stride_padding", conv(stride=(2, 1), padding=(1, 2)), normal(2, 9, 8, 3), normal(4, 3, 5, 3), normal(4))
    golden.case("dilation", conv(dilation=2, padding=2), normal(1, 9, 8, 2), normal(3, 3, 3, 2))
    golden.case("groups", conv(groups=2, padding=1), normal(2, 6, 5, 4), normal(6, 3, 3, 2), normal(6))
