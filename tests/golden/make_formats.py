"""A safetensors file written by the reference implementation (Python package `safetensors`, with numpy)."""
import pathlib

import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "f32": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "f64": np.array(0.1),
        "i64": np.array([-1, 2**40]),
        "i32": np.array([[7]], dtype=np.int32),
        "u8": np.array([1, 2, 255], dtype=np.uint8),
        "empty": np.zeros((0, 4), dtype=np.float32),
    },
    pathlib.Path(__file__).parent / "formats.safetensors",
    metadata={"format": "np", "n\u00e9": "\u2713 \"quoted\""},
)
