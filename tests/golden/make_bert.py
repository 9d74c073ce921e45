"""Golden values for BERT, from transformers.

Run with a Python that has torch, transformers and safetensors; writes next to this file. Everything is computed in f64 from
weights that are f32 numbers, and stored as f32, so that a difference is the other side's error alone.

  bert_small_hf/      config.json and model.safetensors, as save_pretrained writes a BertForPreTraining
  bert_small.safetensors    inputs; "logits", "next_logits", "loss"; "grad.<name>" of every parameter; "after.<name>": the
      parameters behind five steps of AdamW on the same batch. "class.*": the same of a BertForSequenceClassification whose
      encoder and pooler are the file's; "class.classifier.*" are its own weights.
"""
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification

HERE = pathlib.Path(__file__).parent
CONFIG = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
              max_position_embeddings=20, type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
              attn_implementation="eager")


def stored(tensor):
    tensor = tensor.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous().clone()


def shake(model):
    """Values that hide no mix-up: fresh biases are all 0, fresh normalisations all 1."""
    for p in model.parameters():
        p.data = (p.data + (0.1 if p.dim() == 1 else 0.15) * torch.randn(p.shape)).float()


def batch():
    lengths, length = [12, 9, 5, 12], 12
    ids = torch.randint(1, 60, (4, length))
    ids[0, 7] = 0  # the padding's id in the middle of a sentence: no gradient from it
    types = torch.zeros(4, length, dtype=torch.int64)
    padding = torch.zeros(4, length, dtype=torch.uint8)
    for row, n in enumerate(lengths):
        types[row, n // 2:n] = 1
        ids[row, n:], padding[row, n:] = 0, 1
    positions = torch.tensor([2, 7, 12 + 1, 12 + 8, 24 + 3, 36 + 5, 36 + 11])
    return {"ids": ids, "types": types, "padding": padding, "masked_positions": positions,
            "masked_labels": torch.randint(0, 60, positions.shape), "next_labels": torch.tensor([0, 1, 1, 0]),
            "class.labels": torch.tensor([2, 0, 1, 2])}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    model = BertForPreTraining(BertConfig(**CONFIG))
    shake(model)
    folder = HERE / "bert_small_hf"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    model.double()
    out = batch()
    inputs = dict(input_ids=out["ids"], token_type_ids=out["types"], attention_mask=1 - out["padding"].long())
    labels = torch.full_like(out["ids"], -100)
    labels.view(-1)[out["masked_positions"]] = out["masked_labels"]

    def step():
        model.zero_grad()
        result = model(**inputs, labels=labels, next_sentence_label=out["next_labels"])
        result.loss.backward()
        return result

    result = step()
    out["logits"] = stored(result.prediction_logits.reshape(48, 60)[out["masked_positions"]])
    out["next_logits"] = stored(result.seq_relationship_logits)
    out["loss"] = stored(result.loss)
    out |= {"grad." + key: stored(p.grad) for key, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-6)
    for _ in range(5):
        step()
        optimizer.step()
    out |= {"after." + key: stored(p) for key, p in model.named_parameters()}

    classifier = BertForSequenceClassification(BertConfig(**CONFIG, num_labels=3))
    shake(classifier)
    weights = {k: v for k, v in load_file(folder / "model.safetensors").items() if k.startswith("bert.")}
    classifier.load_state_dict(weights, strict=False)
    out |= {"class." + key: stored(p) for key, p in classifier.named_parameters() if key.startswith("classifier")}
    classifier.double()
    result = classifier(**inputs, labels=out["class.labels"])
    result.loss.backward()
    out["class.logits"], out["class.loss"] = stored(result.logits), stored(result.loss)
    out |= {"class.grad." + key: stored(p.grad) for key, p in classifier.named_parameters()}
    save_file(out, HERE / "bert_small.safetensors")


if __name__ == "__main__":
    main()
