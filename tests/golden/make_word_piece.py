"""Token ids of Hugging Face's tokenizers (BertNormalizer, BertPreTokenizer, WordPiece) for small and hostile texts, as
word_piece.json. Needs the package tokenizers; code points that newer Unicode versions added are left out, because its
tables and utf8proc's are of different versions."""
import json
import pathlib
import random
import unicodedata

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PLAIN = [
    "Hello, World!  It's 3.14\tor so\r\nnext", "unaffable UNAFFABLE un-affable", "naïve café CRÈME brûlée Ångström",
    "日本語 in the 中文 text", "한국어 띄어쓰기", "ΟΔΥΣΣΕΥΣ Σίσυφος", "İstanbul ISPARTA ılık", "Straße ﬁne ﬂow Ǆ",
    "a\u200bb a\u200db\ufeff", "x\u0000y\ufffdz", "e\u0301\u0327 e\u0327\u0301 \u0344", "नमस्ते दुनिया", "สวัสดี",
    "שָׁלוֹם", "مَرْحَبًا", "👍🏽 👩‍👩‍👧 ok", "a\u00a0b\u2003c\u3000d\u2028e", "$5 + 7 = 12 ~`^|<>", "“quotes” – ‘dash’ … ¿qué?",
    "\u037e \u1fef \u2329 \u0387", "豈更 \U0002f800 \u3007", "[MASK] [mask] [CLS][SEP] [PAD [UNK]]", "##ing ## #", "\u1d15f \U0001d15f\U0001d165",
    "K\u212a Å\u212b ẞ", "a" * 100, "a" * 101, "é" * 100, "é" * 101, "\uac01" * 33, "\uac01" * 34, "b" * 99 + "\uac01",
    "\u0f73\u0f75 \u0f71\u0f72", "", " ", "\u0085x\u001c\u000b"]


def old(c):
    """Assigned in Unicode 8 already, by age unknown to Python: those that its oldest table knows."""
    return unicodedata.ucd_3_2_0.category(c) != "Cn"


def hostile():
    rng = random.Random(3)
    blocks = [(0x20, 0x7F), (0, 0x20), (0xA0, 0x250), (0x300, 0x350), (0x370, 0x3D0), (0x400, 0x500), (0x590, 0x600),
              (0x620, 0x660), (0x900, 0x980), (0xE00, 0xE60), (0xF00, 0xFC0), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070),
              (0x20D0, 0x20F0), (0x3000, 0x3100), (0x4E00, 0x4E10), (0xAC00, 0xAC40), (0xF900, 0xF910), (0xFB00, 0xFB50),
              (0xFF00, 0xFF60), (0x1D15E, 0x1D180), (0x2F800, 0x2F810)]
    for _ in range(250):
        chosen = rng.sample(blocks, rng.randint(1, 3))
        text = ""
        while len(text) < rng.choice([4, 12, 30]):
            c = chr(rng.randrange(*rng.choice(chosen)))
            if old(c):
                text += c
            if rng.random() < 0.2:
                text += rng.choice(" aZ.")
        yield text


def main():
    texts = PLAIN + list(hostile())
    words = set()
    for lower, strip in ((True, True), (False, False), (True, False), (False, True)):
        normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
        for text in texts:
            words.update(w for w, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text)))
    characters = sorted({c for w in words for c in w})
    # Some characters are left out, so that [UNK] is there too.
    characters = [c for i, c in enumerate(characters) if i % 29 != 7]
    tokens = SPECIAL + characters + ["##" + c for i, c in enumerate(characters) if i % 31 != 5]
    tokens += ["un", "##aff", "##able", "##ing", "hello", "world", "##it", "It", "caf", "##fe"]
    tokens = list(dict.fromkeys(tokens))
    vocab = {t: i for i, t in enumerate(tokens)}
    groups = []
    for lower, strip, special in ((True, True, False), (True, True, True), (False, False, False), (True, False, False), (False, True, False)):
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        if special:
            tokenizer.add_special_tokens(SPECIAL)
        groups.append({"lower_case": lower, "strip_accents": strip, "special_tokens": special, "cases": [
            {"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]})
    out = pathlib.Path(__file__).parent / "word_piece.json"
    lines = [f'{{"vocabulary": {json.dumps(tokens)},', '"groups": [']
    for i, g in enumerate(groups):
        head = json.dumps({k: v for k, v in g.items() if k != "cases"})[:-1]
        lines.append(head + ', "cases": [')
        lines.append(",\n".join(json.dumps(c, separators=(",", ":")) for c in g["cases"]))
        lines.append("]}" + ("," if i + 1 < len(groups) else ""))
    lines.append("]}")
    out.write_text("\n".join(lines) + "\n")


main()
