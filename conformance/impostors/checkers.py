"""Wrong about reports of findings: see spec/checking.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature import checking
from conformance.miniature.adapter import Miniature
from conformance.miniature.checking import Checking, Findings

if TYPE_CHECKING:
    from conformance.miniature.json_text import Value
    from conformance.miniature.stream_rules import StreamRules

Message = dict[str, Any]


class AcceptsAll(Miniature):
    """Finds nothing wrong with anything."""

    def check(self, request: Message) -> Message:
        """Answer that all is well."""
        return super().check(request) | {"findings": [], "suppressed": {}, "valid": True}


class RejectsAll(Miniature):
    """Finds a fault in everything."""

    def check(self, request: Message) -> Message:
        """Answer with one more finding."""
        answer = super().check(request)
        fault = {"rule": "invalid-json", "severity": "error", "line": 1, "offset": 0, "pointer": ""}
        return answer | {"findings": [fault, *answer["findings"]], "valid": False}


class OffByOneLine(Miniature):
    """Counts lines from 0 where it can."""

    def check(self, request: Message) -> Message:
        """Answer with the line before."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["line"] = max(1, finding["line"] - 1)
        return answer


class NamesTheLineFeed(Miniature):
    """Gives as offset the byte before the place."""

    def check(self, request: Message) -> Message:
        """Answer with the offset before."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["offset"] = max(0, finding["offset"] - 1)
        return answer


class CountsCharacters(Miniature):
    """Gives offsets in characters, not in bytes."""

    def check(self, request: Message) -> Message:
        """Answer with characters."""
        answer = super().check(request)
        data = request.get("stream", b"")
        for finding in answer["findings"]:
            finding["offset"] = len(data[: finding["offset"]].decode(errors="replace"))
        return answer


class CallsWarningsErrors(Miniature):
    """Gives every warning the severity of an error."""

    def check(self, request: Message) -> Message:
        """Answer with graver findings."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["severity"] = finding["severity"].replace("warning", "error")
        return answer


class CallsWarningsInvalid(Miniature):
    """Calls a stream invalid that has a warning."""

    def check(self, request: Message) -> Message:
        """Answer that a warning is too much."""
        answer = super().check(request)
        return answer | {"valid": not any(finding["severity"] != "info" for finding in answer["findings"])}


class CallsAnErrorValid(Miniature):
    """Looks at the state alone to tell whether a stream is valid."""

    def check(self, request: Message) -> Message:
        """Answer by the state."""
        answer = super().check(request)
        return answer | {"valid": answer["state"] != "damaged"}


class ShowsEscapesInPointers(Miniature):
    """Does not escape slash and tilde in pointers."""

    def check(self, request: Message) -> Message:
        """Answer with bare keys."""
        answer = super().check(request)
        for finding in answer["findings"]:
            finding["pointer"] = finding["pointer"].replace("~1", "~0")
        return answer


class ReversesFindings(Miniature):
    """Lists findings from the last line to the first."""

    def check(self, request: Message) -> Message:
        """Answer from behind."""
        answer = super().check(request)
        return answer | {"findings": answer["findings"][::-1]}


class SortsByRule(Miniature):
    """Lists the findings of one line by the name of the rule."""

    def check(self, request: Message) -> Message:
        """Answer in another order."""
        answer = super().check(request)
        answer["findings"].sort(key=lambda finding: (finding["line"], finding["rule"]))
        return answer


class JudgesFragments(Miniature):
    """Judges the bytes behind the last line feed like a line."""

    class checking_type(Checking):
        def end(self, stream: Any, last: Any, rules: StreamRules, found: Findings) -> None:
            super().end(stream, last, rules, found)
            if stream.fragment:
                offset = len(stream.data) - len(stream.fragment)
                for rule, start, pointer in self.lines.judge(len(stream.lines) + 1, offset, stream.fragment).faults:
                    found.add(rule, len(stream.lines) + 1, offset + start, pointer)


class ListsAllFindings(Miniature):
    """Lists more than the first hundred findings of a rule."""

    def check(self, request: Message) -> Message:
        """Answer without a limit."""
        checking.MAX_LISTED += 1
        try:
            return super().check(request)
        finally:
            checking.MAX_LISTED -= 1


class ForgetsSuppressed(Miniature):
    """Does not count what it does not list."""

    def check(self, request: Message) -> Message:
        """Answer without counts."""
        return super().check(request) | {"suppressed": {}}


class ReportsTheConsequence(Miniature):
    """Reports that a record is missing where a line is unreadable."""

    def check(self, request: Message) -> Message:
        """Answer with a consequence of each fault."""
        answer = super().check(request)
        for finding in list(answer["findings"]):
            if finding["rule"] == "invalid-json":
                answer["findings"].append({**finding, "rule": "missing-key"})
        return answer


class RefusesTheUnknown(Miniature):
    """Calls a stream invalid that has a kind or key that it does not know."""

    def check(self, request: Message) -> Message:
        """Answer that what is unknown is wrong."""
        answer = super().check(request)
        unknown = any(finding["rule"].startswith("unknown-") for finding in answer["findings"])
        return answer | {"valid": answer["valid"] and not unknown}


class ReportsEachUnknownKey(Miniature):
    """Reports an unknown key each time that it comes."""

    class checking_type(Checking):
        def is_new_key(self, found: Findings, kind: str, pointer: str) -> bool:
            return True


class ReportsEachUnknownKind(Miniature):
    """Reports an unknown kind each time that it comes."""

    class checking_type(Checking):
        def tag(self, kind: str | None, line: Any, value: Value, found: Findings) -> None:
            found.names.clear()
            super().tag(kind, line, value, found)


class JudgesRecordsWithoutTag(Miniature):
    """Judges a record whose tag is missing by what it looks like."""

    class checking_type(Checking):
        def tag(self, kind: str | None, line: Any, value: Value, found: Findings) -> None:
            super().tag(kind, line, value, found)
            if kind is None:
                found.add("missing-key", line.number, line.byte(value.start), "/t")


class BlamesEachReturn(Miniature):
    """Reports every line with a carriage return."""

    class checking_type(Checking):
        def vetting(self, line: Any, found: Findings, *, has_return: bool) -> None:
            super().vetting(line, found, has_return=False)


def _impostor(make: type[Miniature], proves: str, reason: str, where: str = "") -> Impostor:
    return Impostor(make=make, role="checker", proves=proves, reason=reason, where=where)


ALL: tuple[Impostor, ...] = (
    _impostor(AcceptsAll, "rules/invalid-json", "not found: invalid-json"),
    _impostor(RejectsAll, "reading/state-complete", "not expected: invalid-json"),
    _impostor(OffByOneLine, "checking/order", "not found: .* at line"),
    _impostor(NamesTheLineFeed, "checking/offset", "offset is"),
    _impostor(CountsCharacters, "checking/offset", "offset is"),
    _impostor(CallsWarningsErrors, "checking/severity", "severity is error, expected warning"),
    _impostor(CallsWarningsInvalid, "checking/valid", "valid is False, expected True"),
    _impostor(CallsAnErrorValid, "checking/valid", "valid is True, expected False"),
    _impostor(ShowsEscapesInPointers, "checking/pointer", "not found: "),
    _impostor(ReversesFindings, "checking/order", "the order differs"),
    _impostor(SortsByRule, "checking/order-in-line", "the order differs"),
    _impostor(JudgesFragments, "encoding/fragment-not-judged", "not expected: "),
    _impostor(ListsAllFindings, "checking/suppression", "not expected|suppressed is"),
    _impostor(ForgetsSuppressed, "checking/suppression", "suppressed is"),
    _impostor(ReportsTheConsequence, "checking/one-finding", "not expected: ", "rules/invalid-json"),
    _impostor(RefusesTheUnknown, "versioning/open", "valid is False|severity is error", "rules/unknown-kind"),
    _impostor(ReportsEachUnknownKey, "checking/once-per-kind", "not expected: unknown-key"),
    _impostor(ReportsEachUnknownKind, "checking/once-per-kind", "not expected: unknown-kind"),
    _impostor(JudgesRecordsWithoutTag, "checking/tag", "not expected: missing-key"),
    _impostor(BlamesEachReturn, "rules/carriage-return", "not expected: carriage-return"),
)
