"""Small image files and what other programs make of them: Pillow's pixels and torchvision's transforms.

Writes tests/golden/images/: the files, <name>.rgb beside each in the plain format of data/image/decode.h, and
views.safetensors. A file's pixels are those of Pillow's exif_transpose() and convert("RGB"), except for 16-bit PNGs,
which Pillow cuts off instead of scaling: round(value * 255 / 65535) there.
"""
import io
import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import save_file
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

HERE = pathlib.Path(__file__).parent / "images"


def picture(height, width):
    """Smooth in places, busy in others."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    red = 128 + 120 * np.sin(x / 5) * np.cos(y / 7)
    green = 255 * x / max(width - 1, 1)
    blue = np.where((x // 4 + y // 3) % 2 == 0, 230, 30)
    return np.stack([red, green, blue], -1).round().clip(0, 255).astype(np.uint8)


def write_rgb(path, pixels):
    height, width, _ = pixels.shape
    path.write_bytes(b"RGB8" + struct.pack("<II", height, width) + np.ascontiguousarray(pixels).tobytes())


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png16(path, values):
    """A PNG of 16 bits, of one (grey) or three channels; Pillow cannot write the latter."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + values[y].astype(">u2").tobytes() for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, 0 if channels == 1 else 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))
    eight = np.floor(values.astype(np.float64) * 255 / 65535 + 0.5).astype(np.uint8)
    write_rgb(path.with_name(path.name + ".rgb"), np.broadcast_to(eight, (height, width, 3)))


def save(name, image, **options):
    path = HERE / name
    image.save(path, **options)
    with Image.open(path) as again:
        write_rgb(path.with_name(path.name + ".rgb"), np.asarray(ImageOps.exif_transpose(again).convert("RGB")))


def files():
    rgb = Image.fromarray(picture(37, 53))
    alpha = np.linspace(0, 255, 37 * 53).reshape(37, 53).astype(np.uint8)
    save("baseline.jpg", rgb, quality=85, subsampling="4:2:0")
    save("full.jpg", rgb, quality=95, subsampling="4:4:4")
    save("progressive.jpg", rgb, quality=80, progressive=True)
    save("grey.jpg", rgb.convert("L"), quality=90)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=90)
    save("rgb.png", rgb)
    save("grey.png", rgb.convert("L"))
    save("bits.png", rgb.convert("1"))
    save("palette.png", rgb.quantize(16))
    save("palette_transparent.png", rgb.quantize(16), transparency=3)
    rgba = rgb.copy()
    rgba.putalpha(Image.fromarray(alpha))
    save("rgba.png", rgba)
    save("grey_alpha.png", rgba.convert("LA"))
    values = (picture(9, 11).astype(np.int64) * 257 + np.arange(11)[None, :, None] * 23 + 100).clip(0, 65535)
    png16(HERE / "rgb16.png", values)
    png16(HERE / "grey16.png", values[:, :, :1])
    small = Image.fromarray(picture(8, 13))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        save(f"exif{orientation}.jpg", small, quality=90, exif=exif)
    exif = Image.Exif()
    exif[0x112] = 6
    save("exif6.png", small, exif=exif)


def views():
    """Bytes after resizing, and f32 after colour changes, all HWC."""
    out = {}
    for height, width in [(37, 53), (90, 60), (90, 17)]:
        out[f"input.{height}x{width}"] = torch.from_numpy(picture(height, width))
        image = Image.fromarray(picture(height, width))
        for size, crop in [(32, 28), (64, 56)]:
            pipeline = v2.Compose([v2.Resize(size), v2.CenterCrop(crop)])
            out[f"eval.{height}x{width}.{size}.{crop}"] = torch.from_numpy(np.asarray(pipeline(image)).copy())
        top, left, h, w = 3, 2, height - 8, width - 5
        cropped = F.resized_crop(image, top, left, h, w, [24, 24], antialias=True)
        out[f"crop.{height}x{width}"] = torch.from_numpy(np.asarray(cropped).copy())
    pixels = torch.from_numpy(picture(16, 19)).permute(2, 0, 1).float() / 255
    out["input.color"] = pixels.permute(1, 2, 0).contiguous()
    for name, fn, amounts in [("brightness", F.adjust_brightness, [0.5, 1.7]),
                              ("contrast", F.adjust_contrast, [0.3, 1.9]),
                              ("saturation", F.adjust_saturation, [0.0, 0.6, 1.8]),
                              ("hue", F.adjust_hue, [-0.5, -0.1, 0.07, 0.4])]:
        for amount in amounts:
            out[f"{name}.{amount:g}"] = fn(pixels, amount).permute(1, 2, 0).contiguous()
    save_file(out, HERE / "views.safetensors")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    files()
    views()
