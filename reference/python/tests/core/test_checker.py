from __future__ import annotations

import multiprocessing
import threading
from itertools import islice
from pathlib import Path

import pytest

from toyspec.core.checker import CheckOptions, UnknownRuleError, check, check_bytes, iter_reports
from toyspec.core.findings import FileReport

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'
END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


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


def test_workers_change_nothing_but_time(tmp_path: Path) -> None:
    """Reports come in the order of the paths, however many processes check."""
    for index in range(150):
        bundle(tmp_path, f"{index:03}", START * (1 + index % 3))
    alone = list(iter_reports([str(tmp_path)], options=CheckOptions()))
    assert alone == list(iter_reports([str(tmp_path)], options=CheckOptions(), workers=2))


def test_stream_may_begin_with_any_number_of_unreadable_lines() -> None:
    """Thousands of short lines before the first record are checked like those after it."""
    report = check_bytes(b"x\n" * 5000 + START + END)
    assert (5000, 2, "toy/v1") == (
        sum(finding.rule == "invalid-json" for finding in report.findings) + report.suppressed["invalid-json"],
        report.records,
        report.profile,
    )


def test_progress_ends_at_the_whole_size(tmp_path: Path) -> None:
    """Progress counts bytes checked and reaches the bytes known of."""
    for name in ("a", "b"):
        bundle(tmp_path, name, START * 100)
    calls: list[tuple[int, int]] = []
    list(iter_reports([str(tmp_path)], options=CheckOptions(), on_progress=lambda *sizes: calls.append(sizes)))
    total = 200 * len(START)
    assert (total, total) == calls[-1]
    assert sorted(calls) == calls


def test_relative_path_knows_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream named from inside its directory is compared with that directory's name."""
    monkeypatch.chdir(bundle(tmp_path, "run", START + END))
    assert [] == found(check("events.jsonl").files[0])


def test_stream_in_memory_has_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest of a file that has its name is of another run."""
    (tmp_path / "run.json").write_bytes(b'{"run_id":"a","schema_version":1,"created_at":1.0}')
    (tmp_path / "events.jsonl").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert ("kaun/v1", "toy/v1") == (
        check("events.jsonl").files[0].profile,
        check_bytes(b"", name="events.jsonl").profile,
    )


def test_invented_keys_cost_no_memory() -> None:
    """Beyond the limit, unknown keys are counted and forgotten."""
    stream = b"".join(step(i).replace(b"}", b',"k%d":1}' % i) for i in range(1, 301))
    report = check_bytes(START + stream + END)
    assert ({"unknown-key": 200}, 100) == (report.suppressed, len(report.findings))


def test_selection_decides_what_counts() -> None:
    """Valid follows the findings that are left; the rules may come from an iterator."""
    data = START + step(2, 5.0) + step(2, 4.0)
    names = ["step-goes-backwards", "time-goes-backwards"]
    assert set(names) == {each.rule for each in check_bytes(data, select=iter(names)).findings}
    rest = check_bytes(data, ignore=iter(names))
    assert (["run-end-missing"], True) == ([each.rule for each in rest.findings], rest.valid)


def test_rule_that_does_not_exist_cannot_be_selected() -> None:
    """A rule that is named and does not exist is a mistake of the caller."""
    with pytest.raises(UnknownRuleError, match="unknown rule 'step-goes-back'"):
        CheckOptions(select=frozenset(["step-goes-back"]))


def test_first_null_is_the_first_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a repeated key the last value counts, where it is."""
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")
    line = b'{"step":1,"wall_time_ms":1,"loss":null,"grad_norm":null,"throughput_samples_per_sec":1,"loss":null}\n'
    found = [finding for finding in check_bytes(line).findings if finding.rule == "not-readable-by-source"]
    assert [("/grad_norm", line.index(b"null", 40 + 5))] == [(finding.pointer, finding.offset) for finding in found]
