import torch
from golden import normal

E, H = 12, 3


def cases(golden):
    def layer(q, k, v, w, b, out_w, out_b, padding=None, causal=False):
        """torch.nn.MultiheadAttention itself, with these values for its parameters."""
        module = torch.nn.MultiheadAttention(E, H, batch_first=True, bias=b is not None).double()
        parameters = {"in_proj_weight": w, "out_proj.weight": out_w}
        if b is not None:
            parameters |= {"in_proj_bias": b, "out_proj.bias": out_b}
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(1) if causal else None
        padding = None if padding is None else padding.bool()
        return torch.func.functional_call(
            module, parameters, (q, k, v), {"key_padding_mask": padding, "attn_mask": mask, "need_weights": False})[0]

    def parameters():
        return [0.5 * normal(3 * E, E), normal(3 * E), 0.5 * normal(E, E), normal(E)]

    def padding(batch, keys):
        mask = torch.zeros(batch, keys, dtype=torch.uint8)
        mask[0, -2:] = 1
        mask[1, 1] = 1  # a hole; key 0 stays, so that each causal query sees one
        return {"padding": mask}

    own = lambda x, w, b, ow, ob, **options: layer(x, x, x, w, b, ow, ob, **options)
    golden.case("self", own, normal(2, 7, E), *parameters())
    golden.case("self_causal", lambda *a: own(*a, causal=True), normal(2, 7, E), *parameters())
    golden.case("self_padding", own, normal(2, 7, E), *parameters(), **padding(2, 7))
    golden.case("self_both", lambda *a, padding: own(*a, causal=True, padding=padding), normal(3, 70, E), *parameters(),
                **padding(3, 70))
    golden.case("self_no_bias", lambda x, w, ow: layer(x, x, x, w, None, ow, None), normal(2, 7, E), 0.5 * normal(3 * E, E),
                0.5 * normal(E, E))
    golden.case("cross", layer, normal(2, 5, E), normal(2, 9, E), normal(2, 9, E), *parameters())
    golden.case("cross_padding", layer, normal(2, 5, E), normal(2, 9, E), normal(2, 9, E), *parameters(), **padding(2, 9))
    golden.case("sdpa", lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
                normal(2, 3, 5, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8))
    golden.case("sdpa_causal",
                lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
                normal(1, 2, 66, 4), normal(1, 2, 70, 4), normal(1, 2, 70, 4))
