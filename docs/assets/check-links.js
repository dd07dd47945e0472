// Puts "check" beside each example that is a log: it opens the page "Check a log" with the example in the address.
(function () {
  "use strict";
  var script = document.currentScript;
  if (!script) return;
  var checker = new URL("../check/", script.src).href;

  /** Returns the object that a line is, null where it is none. */
  function objectIn(line) {
    try {
      var value = JSON.parse(line);
      return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
    } catch (error) {
      return null;
    }
  }

  /** Tells whether an object is a record of a log, by the keys that tell its profile. */
  function isRecord(value) {
    if (typeof value.kind === "string") return true;
    if (typeof value.type === "string") return "tag" in value && "wall_time" in value;
    return "step" in value && "wall_time_ms" in value;
  }

  /** Returns the stream that shows one record as it would be in a log. */
  function streamAround(record) {
    var line = JSON.stringify(record);
    if (!("kind" in record)) return line + "\n";
    var lines = [line];
    var t = typeof record.t === "number" ? record.t : 0;
    if (record.kind !== "run_start") {
      var start = { kind: "run_start", schema: "toy/v1", t: 0, run_id: "example" };
      if (record.kind === "compare") start.compare_to = "baseline";
      lines.unshift(JSON.stringify(start));
    }
    if (record.kind === "region_exit") lines.splice(1, 0, JSON.stringify({ kind: "region_enter", t: 0, region: record.region }));
    if (record.kind === "region_enter") lines.push(JSON.stringify({ kind: "region_exit", t: t + 1, region: record.region }));
    if (record.kind !== "run_end") lines.push(JSON.stringify({ kind: "run_end", t: t + 1, reason: "completed" }));
    return lines.join("\n") + "\n";
  }

  /** Returns the expectation in the comment before an example; the tests of the specification read it too. */
  function noteBefore(block) {
    var node = block.previousSibling;
    while (node && node.nodeType === 3) node = node.previousSibling;
    return node && node.nodeType === 8 ? node.data : "";
  }

  /** Returns the stream in a block, null where it holds none. */
  function streamIn(block, text) {
    var note = noteBefore(block);
    if (note.indexOf(" findings=") >= 0) {
      return note.indexOf(" unterminated") >= 0 ? text.replace(/\n$/, "") : text.replace(/\n*$/, "\n");
    }
    var lines = text.split("\n").filter(Boolean);
    var one = objectIn(text);
    if (one) return isRecord(one) ? (lines.length === 1 ? withLine(one, lines[0]) : streamAround(one)) : null;
    for (var i = 0; i < lines.length; i++) {
      var value = objectIn(lines[i]);
      if (!value || !isRecord(value)) return null;
    }
    return lines.length > 0 ? lines.join("\n") + "\n" : null;
  }

  /** Keeps the line of a record as it is written: 1.0 would become 1. */
  function withLine(record, line) {
    return streamAround(record).replace(JSON.stringify(record), function () { return line; });
  }

  function nameFor(block, stream) {
    var first = objectIn(stream.split("\n")[0]) || {};
    return noteBefore(block).indexOf("profile=metrics/v1") >= 0 || "wall_time_ms" in first ? "metrics.jsonl" : "example.jsonl";
  }

  function addLink(block) {
    var code = block.querySelector("code");
    var stream = code && streamIn(block, code.textContent);
    if (!stream) return;
    var link = document.createElement("a");
    link.className = "check-link";
    link.href = checker + "#text=" + encodeURIComponent(stream) + "&name=" + nameFor(block, stream);
    link.textContent = "check";
    link.setAttribute("aria-label", "check this example");
    block.appendChild(link);
  }

  function start() {
    // JSON Lines count as text for those who colour code.
    var blocks = document.querySelectorAll(".language-json.highlight, .language-jsonl.highlight, .language-text.highlight");
    for (var i = 0; i < blocks.length; i++) addLink(blocks[i]);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start, { once: true });
  else start();
})();
