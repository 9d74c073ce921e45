"""Reads the event files of train_resnet with TensorBoard's own reader and compares them with metrics.jsonl: of a run that
was killed and went on, read afresh and by a reader that was there from the start.
  tensorboard_interop.py TRAIN_RESNET"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {
    "loss": "train/loss",
    "accuracy": "train/accuracy",
    "lr": "train/lr",
    "samples_per_second": "speed/samples_per_second",
    "step_ms": "speed/step_ms",
    "data_wait_ms": "speed/data_wait_ms",
    "comm_hidden_ms": "communication/hidden_ms",
    "comm_exposed_ms": "communication/exposed_ms",
    "test_loss": "test/loss",
    "test_accuracy": "test/accuracy",
}


def wanted(run):
    curves = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        for field, tag in TAGS.items():
            if field in values:
                curves.setdefault(tag, []).append((values["step"], values[field], values["unix_time"]))
    return curves


def compare(run, reader, who):
    curves = wanted(run)
    assert set(reader.Tags()["scalars"]) == set(curves), (who, reader.Tags()["scalars"])
    points = 0
    for tag, expected in curves.items():
        got = reader.Scalars(tag)
        assert [e.step for e in got] == [step for step, _, _ in expected], (who, tag, [e.step for e in got])
        for event, (_, value, at) in zip(got, expected):
            assert abs(event.value - value) <= 1e-6 * abs(value) and event.wall_time == at, (who, tag, event, value)
        points += len(got)
    print(f"{who}: {points} points of {len(curves)} curves as in metrics.jsonl")


def reader_of(run):
    return EventAccumulator(str(run), size_guidance={"scalars": 0})


with tempfile.TemporaryDirectory() as folder:
    run = pathlib.Path(folder) / "run"
    train = [sys.argv[1], "--nproc", "2", "--threads", "1", "--epochs", "12", "--log-interval", "5", "--checkpoint-every",
             "7", "--output-dir", str(run), "--resume", "auto"]
    process = subprocess.Popen(train, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 120
    metrics = run / "metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 12:
        assert process.poll() is None and time.time() < deadline, "the run did not come as far as it should"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1)
    killed = wanted(run)["train/loss"][-1][0]
    early = reader_of(run)
    early.Reload()
    compare(run, early, f"killed after step {killed}")

    out = subprocess.run(train, check=True, capture_output=True, text=True).stdout
    print(next(line for line in out.splitlines() if "resumed from" in line).replace(str(run), "RUN"))
    late = reader_of(run)
    late.Reload()
    compare(run, late, "resumed, read afresh")
    early.Reload()
    compare(run, early, "resumed, read on")

    before, files = sorted(run.glob("events.out.tfevents.*"))
    assert before.stat().st_size == 0, before
    files.write_bytes(files.read_bytes()[:-7])
    cut = reader_of(run)
    cut.Reload()
    assert len(cut.Scalars("train/loss")) == len(late.Scalars("train/loss"))
    assert len(cut.Scalars("test/loss")) == len(late.Scalars("test/loss")) - 1
    print("cut short in its last record: all but that one read")
print("OK")
