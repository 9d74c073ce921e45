#!/usr/bin/env python3
"""Writes scalars.tfevents with TensorBoard's own protocol buffers and record writer (PyPI tensorboard 2.21)."""
import io
import pathlib

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto import summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def scalars(wall_time, step, values):
    summary = summary_pb2.Summary(
        value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values])
    return event_pb2.Event(wall_time=wall_time, step=step, summary=summary)


events = [
    event_pb2.Event(wall_time=1700000000.0, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=1700000000.25, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    event_pb2.Event(wall_time=1700000000.25, step=300,
                    session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    scalars(1700000001.5, 0, [("train/loss", 2.5)]),
    scalars(1700000002.0, 127, [("train/loss", 0.1), ("train/accuracy", 0.0)]),
    scalars(1700000003.0, 128, [("test/accuracy", float("inf")), ("a" * 200, -1e-30)]),
    scalars(1700000004.0, 2**40 + 5, [("grün", 3.4028234663852886e38)]),
    scalars(-1.0, 2**63 - 1, []),
]

path = pathlib.Path(__file__).parent / "scalars.tfevents"
with open(path, "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
    writer.flush()
