from __future__ import annotations

import multiprocessing
import os
import threading
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from toyspec.core.checker import CheckOptions, UnknownRuleError, check, check_bytes, iter_reports, summarize
from toyspec.core.checker.checking import weight
from toyspec.core.checker.stream_checker import StreamChecker
from toyspec.core.findings import FileReport, PathError
from toyspec.core.format.date_times import is_date_time
from toyspec.core.generated.limits import EXCERPT_BYTES
from toyspec.core.generated.rules import ORDER
from toyspec.core.runs.discovery import Found, Stream
from toyspec.core.workers.running import batches

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'
END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'
KAUN = b'{"type":"scalar","step":1,"tag":"loss","value":0.5}\n'


def step(number: int, t: float = 1.0) -> bytes:
    """Return the line of a step."""
    return f'{{"kind":"step","t":{t},"step":{number}}}\n'.encode()


def found(report: FileReport) -> list[tuple[str, int, str]]:
    """Return rule, line and pointer of each finding."""
    return [(finding.rule, finding.line, finding.pointer) for finding in report.findings]


def bundle(root: Path, name: str, data: bytes, **sidecars: bytes) -> Path:
    """Write a bundle and return its directory."""
    directory = root / name
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(data)
    for sidecar, content in sidecars.items():
        (directory / f"{sidecar}.json").write_bytes(content)
    return directory


def test_directory_gives_every_stream_below_it_in_order(tmp_path: Path) -> None:
    """A runs root is walked by name; files of other names are left alone."""
    for name in ("b", "a", "c/deep"):
        bundle(tmp_path, name, START)
    (tmp_path / "a" / "metrics.jsonl").write_bytes(b"")
    (tmp_path / "a" / "other.jsonl").write_bytes(b"x\n")
    names = [os.path.relpath(report.path, tmp_path) for report in check(tmp_path).files]
    assert ["a/events.jsonl", "a/metrics.jsonl", "b/events.jsonl", "c/deep/events.jsonl"] == names


def test_directory_without_stream_is_missing_one(tmp_path: Path) -> None:
    """A directory that is named and has no stream below it gives one finding and no state."""
    (report,) = check(tmp_path).files
    assert ([("stream-missing", 1, "")], None, False) == (found(report), report.state, report.valid)


def test_path_that_is_not_there_is_listed(tmp_path: Path) -> None:
    """A path that cannot be read is listed with its reason, and the rest is checked."""
    directory = bundle(tmp_path, "run", START + END)
    report = check(tmp_path / "nothing", directory)
    assert [PathError(str(tmp_path / "nothing"), "No such file or directory")] == report.errors
    assert ["complete"] == [file.state for file in report.files]


def test_rotten_run_among_many_stops_nothing(tmp_path: Path) -> None:
    """One damaged stream does not hide the others."""
    for index in range(20):
        bundle(tmp_path, f"{index:02}", START.replace(b'"run"', b'"%02d"' % index) + END)
    (tmp_path / "07" / "events.jsonl").write_bytes(b"\xff\n")
    states = [file.state for file in check(tmp_path).files]
    assert ["complete"] * 7 + ["damaged"] + ["complete"] * 12 == states


@pytest.mark.usefixtures("plain_python")
def test_no_worker_is_left(tmp_path: Path) -> None:
    """The workers end with the reports, also if the last ones are not taken."""
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_bytes(b"{")
    threads = threading.enumerate()
    for taken in (3, 1):
        reports = iter_reports([str(tmp_path)], options=CheckOptions(), workers=2)
        assert taken == len(list(islice(reports, taken)))
        assert multiprocessing.active_children()
        reports.close()  # type: ignore[attr-defined] # it is a generator
        assert [] == multiprocessing.active_children()
    assert threads == threading.enumerate()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing_but_time(tmp_path: Path, workers: int) -> None:
    """Reports come in the order of the paths, however many processes check."""
    for index in range(150):
        bundle(tmp_path, f"{index:03}", START * (1 + index % 3))
    alone = list(iter_reports([str(tmp_path)], options=CheckOptions()))
    assert alone == list(iter_reports([str(tmp_path)], options=CheckOptions(), workers=workers))


def test_stream_may_begin_with_any_number_of_unreadable_lines() -> None:
    """Thousands of short lines before the first record are checked like those after it."""
    report = check_bytes(b"x\n" * 5000 + START + END)
    assert (5000, 2, "toy/v1") == (
        sum(finding.rule == "invalid-json" for finding in report.findings) + report.suppressed["invalid-json"],
        report.records,
        report.profile,
    )


def test_small_streams_are_handed_over_together() -> None:
    """Every stream is in one batch, in order; a large one ends a batch, and one of unknown size is alone."""
    small = [Stream(f"small-{index}", 1) for index in range(200)]
    found: list[Found] = [*small[:3], Stream("-", 0), PathError("gone", "why"), Stream("pipe", 0), *small[3:100]]
    found += [Stream("large", 1 << 24), *small[100:]]
    pieces = list(batches(found, weight))
    assert found == [item for batch in pieces for item in batch]
    assert [3, 1, 1, 1, 64, 34, 64, 36] == [len(batch) for batch in pieces]


def test_progress_ends_at_the_whole_size(tmp_path: Path) -> None:
    """Progress counts bytes checked and reaches the bytes known of."""
    for name in ("a", "b"):
        bundle(tmp_path, name, START * 100)
    calls: list[tuple[int, int]] = []
    list(iter_reports([str(tmp_path)], options=CheckOptions(), on_progress=lambda *sizes: calls.append(sizes)))
    total = 200 * len(START)
    assert (total, total) == calls[-1]
    assert sorted(calls) == calls


def test_run_id_is_compared_with_the_directory(tmp_path: Path) -> None:
    """A run_id that differs from the directory's name is a warning at the run_id, in events.jsonl only."""
    directory = bundle(tmp_path, "other", START + END)
    (directory / "copy.jsonl").write_bytes(START + END)
    assert [("run-id-mismatch", 1, "/run_id")] == found(check(directory).files[0])
    assert [] == found(check(directory / "copy.jsonl").files[0])


def test_relative_path_knows_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream named from inside its directory is compared with that directory's name."""
    monkeypatch.chdir(bundle(tmp_path, "run", START + END))
    assert [] == found(check("events.jsonl").files[0])


@pytest.mark.parametrize(
    ("content", "line", "pointer"),
    [(b"", 1, ""), (b"{", 1, ""), (b"[]", 1, ""), (b'{\n "a": NaN\n}', 2, ""), (b'{"a":1,"a":2}', None, None)],
)
def test_sidecar_must_be_one_object(tmp_path: Path, content: bytes, line: int | None, pointer: str | None) -> None:
    """A file beside the stream that is not a JSON object is an error at its place; a repeated key is not."""
    (report,) = check(bundle(tmp_path, "run", START + END, flow=content)).files
    expected = [] if line is None else [("sidecar-unreadable", line, pointer)]
    assert expected == found(report)
    assert all(finding.sidecar == "flow.json" for finding in report.findings)
    starts = [each.offset - each.excerpt.mark for each in report.findings if each.excerpt is not None]
    assert starts == [content.find(b"\n") + 1 for _ in starts]
    assert bool(starts) == (content[:1] != b"" and line is not None)


def test_sidecar_has_no_byte_order_mark(tmp_path: Path) -> None:
    """It is refused at the start of a file, as in a stream."""
    (report,) = check(bundle(tmp_path, "run", START + END, flow=b'\xef\xbb\xbf{"a":1}')).files
    (finding,) = report.findings
    assert "flow.json cannot be read: the stream starts with a byte order mark (EF BB BF)" == finding.message


def test_stream_in_memory_has_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest of a file that has its name is of another run."""
    (tmp_path / "run.json").write_bytes(b'{"run_id":"a","schema_version":1,"created_at":1.0}')
    (tmp_path / "events.jsonl").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert ("kaun/v1", "toy/v1") == (
        check("events.jsonl").files[0].profile,
        check_bytes(b"", name="events.jsonl").profile,
    )


def test_manifest_of_kaun_is_checked(tmp_path: Path) -> None:
    """The manifest of a kaun run is compared with its schema and its directory."""
    manifest = b'{\n  "schema_version": 2,\n  "run_id": "other",\n  "tags": ["a", 1]\n}\n'
    (report,) = check(bundle(tmp_path, "run", KAUN, run=manifest)).files
    assert [
        ("unsupported-schema", 2, "/schema_version"),
        ("run-id-mismatch", 3, "/run_id"),
        ("wrong-type", 4, "/tags/1"),
    ] == sorted(found(report), key=lambda item: item[1])


def test_manifest_decides_for_a_stream_without_records(tmp_path: Path) -> None:
    """A stream that does not tell its profile follows the manifest beside it."""
    (report,) = check(bundle(tmp_path, "run", b"", run=b'{"schema_version":1,"run_id":"run"}')).files
    assert "kaun/v1" == report.profile


def test_findings_are_listed_up_to_a_limit_and_counted_beyond() -> None:
    """After 100 findings of a rule the rest is counted, and counts in the summary and the verdict."""
    report = check_bytes(START + step(7) * 251 + END)
    assert {"step-goes-backwards": 150} == report.suppressed
    assert 100 == len(report.findings)
    assert (250, False) == (summarize([report]).errors, report.valid)


def test_unknown_keys_are_reported_once_with_a_count() -> None:
    """An unknown key is reported at its first place, once for each kind, with how often it came."""
    report = check_bytes(START + step(1).replace(b"}", b',"lss":1}') + step(2).replace(b"}", b',"lss":2}') + END)
    (finding,) = report.findings
    assert ("unknown-key", 2, "/lss") == (finding.rule, finding.line, finding.pointer)
    assert "unknown key `lss` in `step`, 2 times; did you mean `loss`?" == finding.message


def test_invented_keys_cost_no_memory() -> None:
    """Beyond the limit, unknown keys are counted and forgotten."""
    stream = b"".join(step(i).replace(b"}", b',"k%d":1}' % i) for i in range(1, 301))
    report = check_bytes(START + stream + END)
    assert ({"unknown-key": 200}, 100) == (report.suppressed, len(report.findings))


def test_selection_decides_what_counts() -> None:
    """Valid follows the findings that are left; the state does not."""
    data = START + step(2, 5.0) + step(2, 4.0)
    report = check_bytes(data)
    assert {"step-goes-backwards", "time-goes-backwards", "run-end-missing"} == {f.rule for f in report.findings}
    checker = StreamChecker("-", options=CheckOptions(ignore=frozenset(["step-goes-backwards", "time-goes-backwards"])))
    checker.feed(data)
    rest = checker.finish()
    assert (["run-end-missing"], True, "torn") == ([f.rule for f in rest.findings], rest.valid, rest.state)


def test_rules_may_come_from_an_iterator() -> None:
    """It is read once, and every finding is compared with what it had."""
    data = START + step(2, 5.0) + step(2, 4.0)
    names = ["step-goes-backwards", "time-goes-backwards"]
    assert set(names) == {each.rule for each in check_bytes(data, select=iter(names)).findings}
    assert ["run-end-missing"] == [each.rule for each in check_bytes(data, ignore=iter(names)).findings]


def test_rule_that_does_not_exist_cannot_be_selected() -> None:
    """A rule that is named and does not exist is a mistake of the caller."""
    with pytest.raises(UnknownRuleError, match="unknown rule 'step-goes-back'"):
        CheckOptions(select=frozenset(["step-goes-back"]))


def test_excerpt_shows_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The excerpt of a long line holds the byte that the finding is about."""
    line = b'{"kind":"note","t":1.0,"text":"%s","step":1.5}\n' % (b"x" * 500)
    (finding,) = check_bytes(START + line + END).findings
    assert finding.excerpt is not None
    assert finding.offset == len(START) + finding.excerpt.mark
    shown = finding.excerpt.data[finding.excerpt.mark - finding.excerpt.start :]
    assert shown.startswith(b"1.5")
    assert EXCERPT_BYTES == len(finding.excerpt.data)


def test_glued_records_are_named() -> None:
    """Half a record with the next one after it is one finding at the line, and says what happened."""
    report = check_bytes(START + b'{"kind":"step","t":0.2,"st' + step(3) + END)
    assert [("invalid-json", 2, "")] == found(report)
    assert "a second record starts at byte 26 of the line, without LF before it" == report.findings[0].message


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-31T09:30:00Z",
        "2026-05-31T09:30:00.123456789+05:30",
        "2024-02-29T23:59:59-00:00",
        "2016-12-31T23:59:60Z",
        "2017-01-01T01:59:60+02:00",
        "0000-01-01T00:00:00Z",
    ],
)
def test_date_times_that_exist(text: str) -> None:
    """RFC 3339 with a zone, a leap second at the end of a day in UTC included."""
    assert is_date_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-05-31",
        "2026-05-31T09:30:00",
        "2026-05-31 09:30:00Z",
        "2026-05-31t09:30:00Z",
        "2026-05-31T09:30:00z",
        "2026-05-31T09:30Z",
        "2026-05-31T09:30:00.Z",
        "2026-05-31T09:30:00,5Z",
        "2026-05-31T24:00:00Z",
        "2026-05-31T09:60:00Z",
        "2026-05-31T09:30:60Z",
        "2026-05-31T23:59:60+01:00",
        "2023-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-05-00T00:00:00Z",
        "2026-05-31T09:30:00+2:00",
        "2026-05-31T09:30:00+0200",
        "2026-05-31T09:30:00+24:00",
        "2026-05-31T09:30:00+02:60",
        "2026-05-31T09:30:00Z\n",
        "2026-05-31T09:30:0٣Z",
        "+026-05-31T09:30:00Z",
    ],
)
def test_date_times_that_do_not_exist(text: str) -> None:
    """Without a zone, in another form, or on a day that is in no calendar."""
    assert not is_date_time(text)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"[" * 100_000, "nested-too-deep"),
        (b'{"a":' * 100_000, "nested-too-deep"),
        (b"x" * (17 << 20), "line-too-long"),
    ],
)
def test_hostile_line_gives_one_finding(line: bytes, rule: str) -> None:
    """A line that is very deep or very long is one finding, and the lines around it are read."""
    report = check_bytes(START + line + b"\n" + END)
    assert ([(rule, 2, "")], 2) == (found(report), report.records)


def test_every_rule_is_in_the_registry() -> None:
    """Every rule id that the code can name is a rule of the registry."""
    from toyspec.core.generated import rules

    names = {value for name, value in vars(rules).items() if name.isupper() and isinstance(value, str)}
    assert set(ORDER) == names


def test_report_is_plain_data() -> None:
    """A report encodes as JSON, so that any format can be made from it."""
    report = check_bytes(START + step(1, 2.0) + step(3) + END)
    assert msgspec.json.encode(msgspec.structs.replace(report, findings=[])).startswith(b'{"path":"-"')


def test_first_null_is_the_first_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a repeated key the last value counts, where it is."""
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")
    line = b'{"step":1,"wall_time_ms":1,"loss":null,"grad_norm":null,"throughput_samples_per_sec":1,"loss":null}\n'
    found = [finding for finding in check_bytes(line).findings if finding.rule == "not-readable-by-source"]
    assert [("/grad_norm", line.index(b"null", 40 + 5))] == [(finding.pointer, finding.offset) for finding in found]
