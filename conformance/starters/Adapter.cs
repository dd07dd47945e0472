// Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit Hello and Write.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;

public static class Adapter {
    const string Hello = "{\"hello\": {\"protocol\": 1, \"name\": \"my-emitter\", \"language\": \"C#\", \"version\": \"0.1\", "
        + "\"roles\": [\"writer\"], \"profiles\": [\"toy/v1\"], \"revisions\": [\"1.3\"], \"lines\": true, \"capabilities\": []}}";

    /// Throw this if your emitter refuses a record; the text says why.
    public sealed class Refused : Exception {
        public Refused(string why) : base(why) { }
    }

    /// The digits of an integer, which may have more than 64 bits.
    public sealed class Digits {
        public readonly string Text;
        public Digits(string text) { Text = text; }
    }

    /// Returns the text that your emitter writes for the records. Their values are Dictionary, List, string, bool, null, Digits
    /// and double, NaN and infinities among them. The `t` of a record is the time on the clock of the run.
    static string Write(List<Dictionary<string, object>> records) {
        throw new NotImplementedException("still to do: call your emitter in Write of Adapter.cs");
    }

    /// A value with the numbers that its tags stand for.
    static object Untagged(object value) {
        var list = value as List<object>;
        if (list != null) return list.Select(Untagged).ToList();
        var members = value as Dictionary<string, object>;
        if (members == null) return value;
        if (members.Count == 1) {
            var only = members.First();
            if (only.Key == "int") return new Digits((string) only.Value);
            if (only.Key == "float" || only.Key == "f32") return Number((string) only.Value);
            if (only.Key == "object") members = (Dictionary<string, object>) only.Value;
        }
        return members.ToDictionary(member => member.Key, member => Untagged(member.Value));
    }

    static double Number(string text) {
        switch (text) {
            case "nan": return double.NaN;
            case "inf": return double.PositiveInfinity;
            case "-inf": return double.NegativeInfinity;
            default: return double.Parse(text, CultureInfo.InvariantCulture);
        }
    }

    static byte[] Written(IEnumerable<object> records) {
        return new UTF8Encoding(false, true).GetBytes(Write(records.Select(record => (Dictionary<string, object>) Untagged(record)).ToList()));
    }

    public static int Main(string[] arguments) {
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        var output = Console.OpenStandardOutput();
        Action<string> say = message => {
            byte[] bytes = new UTF8Encoding(false).GetBytes(message + "\n");
            output.Write(bytes, 0, bytes.Length);
            output.Flush();
        };
        string line;
        if (arguments[0] == "--oneshot") {
            var records = new List<object>();
            while ((line = input.ReadLine()) != null) records.Add(new Json(line).Value());
            try {
                byte[] bytes = Written(records);
                output.Write(bytes, 0, bytes.Length);
                return 0;
            } catch (Exception error) {
                Console.Error.WriteLine(error.Message);
                return error is Refused ? 1 : 2;
            }
        }
        say(Hello);
        while (arguments[0] == "--lines" && (line = input.ReadLine()) != null) {
            var request = (Dictionary<string, object>) new Json(line).Value();
            string found;
            try {
                found = "\"outcome\": \"written\", \"stream\": \"" + Convert.ToBase64String(Written((List<object>) request["records"])) + "\"";
            } catch (Refused error) {
                found = "\"outcome\": \"refused\", \"reason\": " + Quoted(error.Message);
            } catch (Exception error) {
                found = "\"error\": " + Quoted(error.Message);
            }
            say("{\"id\": " + request["id"] + ", " + found + "}");
        }
        return 0;
    }

    static string Quoted(string text) {
        var plain = text.Select(letter => letter < ' ' ? "\\u" + ((int) letter).ToString("x4") : "\"\\".IndexOf(letter) < 0 ? letter.ToString() : "\\" + letter);
        return "\"" + string.Concat(plain) + "\"";
    }

    /// Reads what the runner sends, which is JSON without errors.
    sealed class Json {
        readonly string text;
        int at;

        public Json(string text) { this.text = text; }

        public object Value() {
            switch (Next()) {
                case '{':
                    var members = new Dictionary<string, object>();
                    for (at++; Next() != '}';) {
                        string key = Text();
                        Next();
                        at++;
                        members[key] = Value();
                        if (Next() == ',') at++;
                    }
                    at++;
                    return members;
                case '[':
                    var items = new List<object>();
                    for (at++; Next() != ']';) {
                        items.Add(Value());
                        if (Next() == ',') at++;
                    }
                    at++;
                    return items;
                case '"': return Text();
                case 't': at += 4; return true;
                case 'f': at += 5; return false;
                case 'n': at += 4; return null;
                default:
                    int start = at;
                    while (at < text.Length && "+-.eE0123456789".IndexOf(text[at]) >= 0) at++;
                    return text.Substring(start, at - start);
            }
        }

        char Next() {
            while (text[at] <= ' ') at++;
            return text[at];
        }

        string Text() {
            var found = new StringBuilder();
            for (at++; text[at] != '"'; at++) {
                char letter = text[at];
                if (letter == '\\') {
                    letter = text[++at];
                    int place = "bfnrt".IndexOf(letter);
                    if (place >= 0) letter = "\b\f\n\r\t"[place];
                    else if (letter == 'u') {
                        letter = (char) Convert.ToInt32(text.Substring(at + 1, 4), 16);
                        at += 4;
                    }
                }
                found.Append(letter);
            }
            at++;
            return found.ToString();
        }
    }
}
