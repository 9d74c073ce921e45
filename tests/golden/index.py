import torch
from golden import normal


def cases(golden):
    def index(shape, extent):
        return {"index": torch.randint(0, extent, shape)}

    golden.case("gather_first", lambda x, index: x.gather(0, index), normal(6, 5), **index((9, 4), 6))
    golden.case("gather_last", lambda x, index: x.gather(-1, index), normal(3, 4, 6), **index((3, 4, 8), 6))
    golden.case("scatter_add_first", lambda x, s, index: x.scatter_add(0, index, s), normal(6, 5), normal(9, 4),
                **index((9, 4), 6))
    golden.case("scatter_add_middle", lambda x, s, index: x.scatter_add(1, index, s), normal(2, 6, 3), normal(2, 9, 3),
                **index((2, 9, 3), 6))
    golden.case("embedding", lambda w, index: torch.nn.functional.embedding(index, w), normal(11, 7), **index((4, 6), 11))
    golden.case("embedding_padding", lambda w, index: torch.nn.functional.embedding(index, w, padding_idx=2),
                normal(5, 7), **index((4, 6), 5))
    golden.case("where", lambda a, b, index: torch.where(index > 0, a, b), normal(4, 5), normal(5), **index((3, 1, 5), 2))
