"""Lines of workers: what honest workers send is understood, everything else is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ope_bench.execution.worker_process import (
    MESSAGE_BYTES,
    LineBuffer,
    MessageError,
    parse_message,
)
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import RECORD_COLUMNS, Trial, TrialRecord, plain_facts, to_row
from ope_bench.trials.status import Status


def row(**facts: Any) -> list[Any]:
    trial = Trial(resolve("environment", "gaussian"), resolve("estimator", "ipw"), 0)
    return list(to_row(TrialRecord(trial, "digest", Status.OK, estimate=0.5, **facts)))


def line(*message: Any) -> bytes:
    return json.dumps(message).encode()


@pytest.mark.parametrize(
    "sent",
    [
        ["ready"],
        ["cramped", "no room"],
        ["batch", 16],
        ["fit", {"code_digest": "x", "access": '["samples"]'}],
        ["done", row(), False],
        ["done", row(diagnostics={"a": 1.0}, traceback="ü", gpu_peak_bytes=3), True],
        ["done", row(standard_error=float("inf"), truth_expected=0.1 + 0.2), True],
    ],
)
def test_what_honest_workers_send_is_understood(sent: list[Any]) -> None:
    assert json.loads(json.dumps(parse_message(line(*sent)))) == sent


def changed(name: str, value: Any) -> list[Any]:
    wrong = row()
    wrong[RECORD_COLUMNS.index(name)] = value
    return wrong


@pytest.mark.parametrize(
    "sent",
    [
        b"5",
        b"[]",
        b'["done", [], false]',
        b'["done"]',
        b'["unknown", 1]',
        b'[{"a": 1}]',
        b"[" * 100_000,
        b"\xff\xfe",
        b"9" * 10_000,
        line("batch", 0),
        line("batch", True),
        line("batch", 1 << 40),
        line("batch", 2.0),
        line("cramped", 3),
        line("cramped", "\ud800"),
        line("fit", {}),
        line("fit", {"code_digest": "x", "status": "ok"}),
        line("fit", {"code_digest": None}),
        line("done", changed("diagnostics", None), False),
        line("fit", {"nobody_knows": 1}),
        line("fit", []),
        line("fit", {"n_logged_actions": 1 << 70}),
        line("done", row()[:-1], False),
        line("done", changed("status", "fine"), False),
        line("done", changed("status", None), False),
        line("done", changed("estimate", "0.5"), False),
        line("done", changed("estimate", [0.5]), False),
        line("done", changed("n_logged_actions", 1 << 64), False),
        line("done", changed("error_message", "\udcff"), False),
        line("ready", "more"),
    ],
)
def test_anything_else_is_refused(sent: bytes) -> None:
    with pytest.raises(MessageError):
        parse_message(sent)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
KINDS = st.sampled_from(["ready", "cramped", "batch", "fit", "done"])


@settings(max_examples=60)
@given(SCALARS | st.tuples(KINDS, SCALARS) | st.lists(SCALARS, max_size=3))
def test_no_json_ends_the_coordinator(sent: Any) -> None:
    try:
        parse_message(json.dumps(sent).encode())
    except MessageError:
        return
    assert isinstance(sent, list | tuple)


@given(st.lists(st.binary(max_size=6)), st.integers(1, 9))
def test_lines_do_not_depend_on_how_they_arrive(parts: list[bytes], width: int) -> None:
    whole = b"\n".join(parts) + b"\n"
    buffer, found = LineBuffer(), []
    for start in range(0, len(whole), width):
        found += buffer.lines(whole[start : start + width])
    assert found == whole.split(b"\n")[:-1]


def test_a_long_line_is_refused_before_it_fills_the_memory() -> None:
    buffer = LineBuffer()
    piece = b"x" * 65_536
    for _ in range(MESSAGE_BYTES // len(piece)):
        assert not list(buffer.lines(piece))
    with pytest.raises(MessageError, match="more than 4 MiB"):
        list(buffer.lines(b"x"))
    assert sum(map(len, buffer._parts)) <= MESSAGE_BYTES


def test_the_time_for_a_line_is_linear_in_its_length() -> None:
    def seconds(pieces: int) -> float:
        buffer = LineBuffer()
        begun = time.process_time()
        for _ in range(pieces):
            list(buffer.lines(b"x" * 50))
        list(buffer.lines(b"\n"))
        return time.process_time() - begun

    # Sixteen times as many pieces: 16 times as long, and 256 times were it quadratic.
    few = min(seconds(4_000) for _ in range(5))
    assert seconds(64_000) < 80 * few


def test_the_largest_honest_record_fits_a_message() -> None:
    most = {"diagnostics": {"a": "ü" * 65_000}, "traceback": "ü" * 20_000}
    most |= dict.fromkeys(("error_message", "output_tail", "note"), "ü" * 4_000)
    assert len(line("done", row(**most), False)) < MESSAGE_BYTES / 2
    parse_message(line("fit", plain_facts({"code_digest": "d", "access": ("samples",)})))


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_block_has_from_one_to_a_million_replicates(size: int) -> None:
    assert parse_message(line("batch", size)) == ("batch", size)
    with pytest.raises(MessageError):
        parse_message(line("batch", size + 1 if size > 1 else size - 1))


@pytest.mark.parametrize(("least", "beyond"), [(-(1 << 63), -1), ((1 << 63) - 1, 1)])
def test_integers_are_those_of_64_bits(least: int, beyond: int) -> None:
    assert parse_message(line("done", changed("n_logged_actions", least), False))
    with pytest.raises(MessageError):
        parse_message(line("done", changed("n_logged_actions", least + beyond), False))


def test_every_line_may_have_the_largest_size() -> None:
    buffer, longest = LineBuffer(), b"x" * MESSAGE_BYTES
    for _ in range(2):
        assert list(buffer.lines(longest + b"\n")) == [longest]
