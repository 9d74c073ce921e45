import torch
from golden import nchw, nhwc, normal

F = torch.nn.functional


def cases(golden):
    x = lambda *shape: 2 * normal(*shape) + 1
    golden.case("layer", lambda x, w, b: F.layer_norm(x, (33,), w, b), x(5, 7, 33), normal(33), normal(33))
    golden.case("layer_plain", lambda x: F.layer_norm(x, (33,), eps=0.1), x(5, 33))
    golden.case("layer_two", lambda x, w, b: F.layer_norm(x, (4, 6), w, b), x(5, 4, 6), normal(4, 6), normal(4, 6))
    golden.case("group", lambda x, w, b: nhwc(F.group_norm(nchw(x), 3, w, b)), x(2, 5, 4, 12), normal(12), normal(12))
    golden.case("group_rows", lambda x, w, b: F.group_norm(x, 2, w, b), x(6, 12), normal(12), normal(12))
    golden.case("instance", lambda x: nhwc(F.group_norm(nchw(x), 6)), x(3, 5, 4, 6))
    golden.case("added", lambda x, r, w, b, c: F.layer_norm(r + (x + c), (33,), w, b), x(5, 7, 33), x(5, 7, 33), normal(33), normal(33), normal(33))
    golden.case("added_plain", lambda x, r: F.layer_norm(r + x, (6,), eps=0.1), x(4, 6), x(4, 6))
    golden.case("added_two", lambda x, r, w, b: F.layer_norm(r + x, (4, 6), w, b), x(5, 4, 6), x(5, 4, 6), normal(4, 6), normal(4, 6))
