// Lets the fault runner drive the C# emitter: see PROTOCOL.md, durable writers.

using System;
using System.Collections.Generic;
using System.IO;

public static class CsharpWriter {
    private static ToyspecEmitter run;

    public static void Main() {
        for (string line; (line = Console.In.ReadLine()) != null;) {
            Console.Out.WriteLine(Answer(line));
            Console.Out.Flush();
        }
    }

    private static string Answer(string line) {
        string[] words = line.Split(new[] { ' ' }, 3);
        string rest = line.Substring(Math.Min(line.Length, words[0].Length + 1));
        switch (words[0]) {
            case "append": case "entry": case "bundle": return "untestable the emitter writes toy/v1 alone, without a RunBundle";
            case "fork": return "untestable C# programs do not fork";
            case "open":
                var exist = (ToyspecEmitter.Exist) Enum.Parse(typeof(ToyspecEmitter.Exist), words[1], true);
                var next = new ToyspecEmitter(words[2], exist, "demo");
                if (next.Error != null) return "failed " + next.Error;
                run = next;
                return "ok";
            case "start": return Said(run.Start());
            case "resume": return Said(run.Resume(long.Parse(rest)));
            case "step": return Said(run.Step(long.Parse(rest), new Dictionary<string, double> { ["loss"] = 0.5 }));
            case "note": return Said(run.Write(Record("kind", "note", "step", long.Parse(words[1]), "text", new string('x', int.Parse(words[2])))));
            case "end": return Said(run.End());
            case "dropped": return "ok " + run.Dropped;
            case "read": File.ReadAllBytes(rest); return "ok";
            case "value": return Value(rest);
            default: if (run != null) run.Close(); return "ok";
        }
    }

    private static string Value(string name) {
        var nested = new List<object>();
        for (int level = 0; level < 100; level++) nested = new List<object> { nested };
        switch (name) {
            case "nan": return Said(run.Step(1000, new Dictionary<string, double> { ["loss"] = double.NaN }));
            case "long-integer": return Said(run.Write(Record("kind", "step", "step", ulong.MaxValue)));
            case "bad-utf8": return Said(run.Note("\ud800"));
            case "twin-keys": return Said(run.Write(Record("kind", "mine", "m", Record("\ud800", 1, "\ud801", 2))));
            case "deep": return Said(run.Write(Record("kind", "mine", "m", nested)));
            case "long": return Said(run.Note(new string('x', 17000000)));
            case "no-kind": return Said(run.Write(Record("m", 1)));
            default: return "untestable C# has no such value";
        }
    }

    private static Dictionary<string, object> Record(params object[] members) {
        var record = new Dictionary<string, object>();
        for (int at = 0; at < members.Length; at += 2) record[(string) members[at]] = members[at + 1];
        return record;
    }

    private static string Said(bool isWritten) { return isWritten ? "ok" : ("failed " + run.Error).Replace('\n', ' '); }
}
