"""Mutants of reports of findings: see spec/checking.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle import checking
from conformance.oracle.adapter import Oracle
from conformance.oracle.checking import Checking, Findings

if TYPE_CHECKING:
    from conformance.oracle.json_text import Value
    from conformance.oracle.stream_rules import StreamRules

Message = dict[str, Any]


class AcceptsAll(Oracle):
    """Reports no finding."""

    def check(self, request: Message) -> Message:
        """Answer without findings."""
        return super().check(request) | {"findings": [], "suppressed": {}, "valid": True}


class RejectsAll(Oracle):
    """Reports one finding too many in every stream."""

    def check(self, request: Message) -> Message:
        """Answer with one more finding."""
        answer = super().check(request)
        problem = {"rule": "invalid-json", "severity": "error", "line": 1, "offset": 0, "pointer": ""}
        return answer | {"findings": [problem, *answer["findings"]], "valid": False}


class OffByOneLine(Oracle):
    """Counts lines from 0."""

    def check(self, request: Message) -> Message:
        """Answer with the line before."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["line"] = max(1, finding["line"] - 1)
        return answer


class NamesTheLineFeed(Oracle):
    """Gives the offset of the byte before the place."""

    def check(self, request: Message) -> Message:
        """Answer with the offset before."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["offset"] = max(0, finding["offset"] - 1)
        return answer


class CountsCharacters(Oracle):
    """Gives offsets in characters, not in bytes."""

    def check(self, request: Message) -> Message:
        """Answer with characters."""
        answer = super().check(request)
        data = request.get("stream", b"")
        for finding in answer["findings"]:
            finding["offset"] = len(data[: finding["offset"]].decode(errors="replace"))
        return answer


class CallsWarningsErrors(Oracle):
    """Gives every warning the severity of an error."""

    def check(self, request: Message) -> Message:
        """Answer with errors for warnings."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["severity"] = finding["severity"].replace("warning", "error")
        return answer


class CallsWarningsInvalid(Oracle):
    """Reports a stream with a warning as invalid."""

    def check(self, request: Message) -> Message:
        """Answer that a warning makes the stream invalid."""
        answer = super().check(request)
        return answer | {"valid": not any(finding["severity"] != "info" for finding in answer["findings"])}


class CallsAnErrorValid(Oracle):
    """Decides by the state alone whether a stream is valid."""

    def check(self, request: Message) -> Message:
        """Answer by the state."""
        answer = super().check(request)
        return answer | {"valid": answer["state"] != "damaged"}


class ShowsEscapesInPointers(Oracle):
    """Does not escape slash and tilde in pointers."""

    def check(self, request: Message) -> Message:
        """Answer with bare keys."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["pointer"] = finding["pointer"].replace("~1", "~0")
        return answer


class ReversesFindings(Oracle):
    """Lists findings from the last line to the first."""

    def check(self, request: Message) -> Message:
        """Answer in reverse."""
        answer = super().check(request)
        return answer | {"findings": answer["findings"][::-1]}


class SortsByRule(Oracle):
    """Lists the findings of one line by the name of the rule."""

    def check(self, request: Message) -> Message:
        """Answer in another order."""
        answer = super().check(request)
        answer["findings"].sort(key=lambda finding: (finding["line"], finding["rule"]))
        return answer


class ChecksFragments(Oracle):
    """Validates the bytes after the last LF like a line."""

    class checking_type(Checking):
        def end(self, stream: Any, last: Any, rules: StreamRules, found: Findings) -> None:
            super().end(stream, last, rules, found)
            if stream.fragment:
                offset = len(stream.data) - len(stream.fragment)
                for rule, start, pointer in self.lines.validate(
                    len(stream.lines) + 1, offset, stream.fragment
                ).problems:
                    found.add(rule, len(stream.lines) + 1, offset + start, pointer)


class ListsAllFindings(Oracle):
    """Lists more than the first hundred findings of a rule."""

    def check(self, request: Message) -> Message:
        """Answer without a limit."""
        checking.MAX_LISTED += 1
        try:
            return super().check(request)
        finally:
            checking.MAX_LISTED -= 1


class ForgetsSuppressed(Oracle):
    """Does not count suppressed findings."""

    def check(self, request: Message) -> Message:
        """Answer without counts."""
        return super().check(request) | {"suppressed": {}}


class ReportsTheConsequence(Oracle):
    """Reports a missing record if a line is unreadable."""

    def check(self, request: Message) -> Message:
        """Answer with a consequence of each unreadable line."""
        answer = super().check(request)
        for finding in list(answer["findings"]):
            if finding["rule"] == "invalid-json":
                answer["findings"].append({**finding, "rule": "missing-key"})
        return answer


class RefusesTheUnknown(Oracle):
    """Reports a stream with an unknown kind or key as invalid."""

    def check(self, request: Message) -> Message:
        """Answer that unknown kinds and keys are errors."""
        answer = super().check(request)
        unknown = any(finding["rule"].startswith("unknown-") for finding in answer["findings"])
        return answer | {"valid": answer["valid"] and not unknown}


class ReportsEachUnknownKey(Oracle):
    """Reports every occurrence of an unknown key."""

    class checking_type(Checking):
        def is_new_key(self, found: Findings, kind: str, path: tuple[str, ...]) -> bool:
            return True


class ReportsEachUnknownKind(Oracle):
    """Reports every occurrence of an unknown kind."""

    class checking_type(Checking):
        def tag(self, kind: str | None, line: Any, value: Value, found: Findings) -> None:
            found.names.clear()
            super().tag(kind, line, value, found)


class ChecksRecordsWithoutTag(Oracle):
    """Guesses the kind of a record without a tag."""

    class checking_type(Checking):
        def tag(self, kind: str | None, line: Any, value: Value, found: Findings) -> None:
            super().tag(kind, line, value, found)
            if kind is None:
                found.add("missing-key", line.number, line.byte(value.start), "/t")


class BlamesEachReturn(Oracle):
    """Reports every line with a carriage return."""

    class checking_type(Checking):
        def line_validation(self, line: Any, found: Findings, *, has_return: bool) -> None:
            super().line_validation(line, found, has_return=False)


def _mutant(make: type[Oracle], proves: str, reason: str, where: str = "") -> Mutant:
    return Mutant(make=make, role="checker", proves=proves, reason=reason, where=where)


ALL: tuple[Mutant, ...] = (
    _mutant(AcceptsAll, "rules/invalid-json", "not found: invalid-json"),
    _mutant(RejectsAll, "reading/state-complete", "not expected: invalid-json"),
    _mutant(OffByOneLine, "checking/order", "not found: .* at line"),
    _mutant(NamesTheLineFeed, "checking/offset", "offset is"),
    _mutant(CountsCharacters, "checking/offset", "offset is"),
    _mutant(CallsWarningsErrors, "checking/severity", "severity is error, expected warning"),
    _mutant(CallsWarningsInvalid, "checking/valid", "valid is False, expected True"),
    _mutant(CallsAnErrorValid, "checking/valid", "valid is True, expected False"),
    _mutant(ShowsEscapesInPointers, "checking/pointer", "not found: "),
    _mutant(ReversesFindings, "checking/order", "the order differs"),
    _mutant(SortsByRule, "checking/order-in-line", "the order differs"),
    _mutant(ChecksFragments, "encoding/fragment-not-judged", "not expected: "),
    _mutant(ListsAllFindings, "checking/suppression", "not expected|suppressed is"),
    _mutant(ForgetsSuppressed, "checking/suppression", "suppressed is"),
    _mutant(ReportsTheConsequence, "checking/one-finding", "not expected: ", "rules/invalid-json"),
    _mutant(RefusesTheUnknown, "versioning/open", "valid is False|severity is error", "rules/unknown-kind"),
    _mutant(ReportsEachUnknownKey, "checking/once-per-kind", "not expected: unknown-key"),
    _mutant(ReportsEachUnknownKind, "checking/once-per-kind", "not expected: unknown-kind"),
    _mutant(ChecksRecordsWithoutTag, "checking/tag", "not expected: missing-key"),
    _mutant(BlamesEachReturn, "rules/carriage-return", "not expected: carriage-return"),
)
