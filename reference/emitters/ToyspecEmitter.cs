using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;

/// <summary>
/// Writes training logs of toy/v1, in one file to copy into a project. C# 7, .NET or Mono on Linux, nothing else.
/// <code>
/// using (var run = new ToyspecEmitter("runs/demo")) {
///     run.Start(new Dictionary&lt;string, object&gt; { ["config"] = new Dictionary&lt;string, object&gt; { ["lr"] = 3e-4 } });
///     for (long step = 1; step &lt;= 100; step++) run.Step(step, new Dictionary&lt;string, double&gt; { ["loss"] = 2.5 });
///     run.End();
/// }
/// </code>
/// A call returns true when its record is in the file, whatever happens to the process afterwards. It throws nothing into
/// the training: it returns false, Error says why, and the first failure is printed on standard error. No call waits for a
/// lock or a thread. A run is used by one thread at a time. It calls the C library, since a FileStream neither takes record
/// locks nor syncs a directory. SPDX-License-Identifier: Apache-2.0
/// </summary>
public sealed class ToyspecEmitter : IDisposable {
    /// <summary>What happens to a stream that is there: Replace keeps it as events.jsonl.prev.</summary>
    public enum Exist { Replace, Fail, Resume }

    private const int MaxLineBytes = 16777216, MaxDepth = 64;
    private static readonly HashSet<string> StepKeys = new HashSet<string> {
        "loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob", "mtp_loss" };

    private readonly string directory, path, runId;
    private readonly Exist exist;
    private readonly Stopwatch clock = Stopwatch.StartNew();
    private double origin, lastT, looked = -1;
    private long unsaid;
    private int file = -1;
    private byte[] fragment = new byte[0];
    private bool isOpen, isBegun, wasReported;

    /// <summary>Why the last call that failed did, or null.</summary>
    public string Error { get; private set; }

    /// <summary>The number of records that are not in the file, since it could not be written.</summary>
    public long Dropped { get; private set; }

    /// <summary>The last step in the file.</summary>
    public long LastStep { get; private set; }

    /// <summary>Opens the stream events.jsonl in the directory; the run's id is the directory's name unless it is given.</summary>
    public ToyspecEmitter(string directory, Exist exist = Exist.Replace, string runId = null) {
        this.directory = Path.GetFullPath(directory).TrimEnd('/');
        this.path = this.directory + "/events.jsonl";
        this.runId = runId ?? Path.GetFileName(this.directory);
        this.exist = exist;
        Perform(Open);
    }

    /// <summary>Writes run_start with metadata such as config and model; call it before computing.</summary>
    public bool Start(IDictionary<string, object> metadata = null) {
        return Perform(() => Begin(Record(metadata, "kind", "run_start", "schema", "toy/v1", "t", T(), "run_id", runId,
            "started_at", DateTime.UtcNow.ToString("yyyy-MM-dd'T'HH:mm:ss'Z'", CultureInfo.InvariantCulture)), true));
    }

    /// <summary>Goes on after a step, by default the last one in the file; without a record to resume, starts the run.</summary>
    public bool Resume(long? fromStep = null) {
        if (isOpen && file < 0) return Start();
        return Perform(() => Begin(Record(null, "kind", "run_resume", "t", T(), "from_step", fromStep ?? LastStep), false));
    }

    /// <summary>Writes one step of the training; names that the format does not know go into extra.</summary>
    public bool Step(long step, IDictionary<string, double> values) {
        return Perform(() => {
            var record = Record(null, "kind", "step", "phase", "train", "t", T(), "step", step);
            var extra = new Dictionary<string, object>();
            var nonfinite = new Dictionary<string, object>();
            foreach (var value in values) {
                bool isKnown = StepKeys.Contains(value.Key);
                (isKnown ? record : extra)[value.Key] = Finite(value.Value, isKnown ? value.Key : "extra/" + value.Key, nonfinite);
            }
            if (extra.Count > 0) record["extra"] = extra;
            if (nonfinite.Count > 0) record["nonfinite"] = nonfinite;
            Append(record, false);
            LastStep = step;
        });
    }

    /// <summary>Writes values by name, at a step or without one.</summary>
    public bool Log(IDictionary<string, double> values, long? step = null) {
        return Perform(() => {
            var record = Record(null, "kind", "scalars", "t", T());
            if (step != null) record["step"] = step;
            var kept = new Dictionary<string, object>();
            var nonfinite = new Dictionary<string, object>();
            foreach (var value in values) kept[value.Key] = Finite(value.Value, value.Key, nonfinite);
            record["values"] = kept;
            if (nonfinite.Count > 0) record["nonfinite"] = nonfinite;
            Append(record, false);
        });
    }

    /// <summary>Writes a note.</summary>
    public bool Note(string text) {
        return Perform(() => Append(Record(null, "kind", "note", "t", T(), "text", text), false));
    }

    /// <summary>Writes any record of toy/v1, of dictionaries, lists, texts, numbers, booleans and null; t is filled in.</summary>
    public bool Write(IDictionary<string, object> members) {
        return Perform(() => Append(Record(members, "t", T()), false));
    }

    /// <summary>Writes run_end and closes the stream. The reason is completed, interrupted, aborted or errored.</summary>
    public bool End(string reason = "completed", IDictionary<string, object> members = null) {
        bool isDone = Perform(() => {
            var record = Record(null, "kind", "run_end", "t", T(), "reason", reason);
            if (LastStep > 0) record["final_step"] = LastStep;
            Append(Record(members, record.SelectMany(member => new[] { member.Key, member.Value }).ToArray()), true);
        });
        Close();
        return isDone;
    }

    /// <summary>Closes the stream and releases its locks, without a record.</summary>
    public void Close() {
        if (file >= 0) {
            Lock(file, false);  // a program that was just started may have the file open, too, and would keep the locks
            C.close(file);
        }
        file = -1;
        isOpen = false;
    }

    /// <summary>Closes the stream, as Close does.</summary>
    public void Dispose() { Close(); }

    /// <summary>Why a record or a stream is refused; Number is the error of the system, 0 without one.</summary>
    private sealed class Refused : Exception {
        public readonly int Number;
        public Refused(string why) : base(why) { }
        public Refused(int number) : base(Marshal.PtrToStringAnsi(C.strerror(number))) { Number = number; }
    }

    /// <summary>The C library of Linux.</summary>
    private static class C {
        public const int RdOnly = 0, RdWr = 2, New = 0xC0, Append = 0x400, NonBlock = 0x800, CloExec = 0x80000;
        public const int EIntr = 4, EAgain = 11, EAcces = 13, EInval = 22, EFBig = 27, ENoSpc = 28, EDQuot = 122;
        public const int NoFollow = 0x100, EmptyPath = 0x1000;

        [StructLayout(LayoutKind.Explicit, Size = 256)]
        public struct Stat {
            [FieldOffset(28)] public ushort Mode;
            [FieldOffset(32)] public ulong Inode;
            [FieldOffset(40)] public long Size;
            [FieldOffset(136)] public uint Major;
            [FieldOffset(140)] public uint Minor;
            public bool IsRegular { get { return (Mode & 0xF000) == 0x8000; } }
            public bool IsSame(Stat other) { return Inode == other.Inode && Major == other.Major && Minor == other.Minor; }
        }

        [StructLayout(LayoutKind.Sequential)]
        public struct Lock { public short Kind, Whence; public long Start, Length; public int Process; }

        [DllImport("libc", SetLastError = true)] public static extern int open(string path, int flags, int mode);
        [DllImport("libc", SetLastError = true)] public static extern int close(int file);
        [DllImport("libc", SetLastError = true)] public static extern IntPtr write(int file, IntPtr bytes, IntPtr count);
        [DllImport("libc", SetLastError = true)] public static extern IntPtr pread(int file, byte[] bytes, IntPtr count, long offset);
        [DllImport("libc", SetLastError = true)] public static extern int ftruncate(int file, long size);
        [DllImport("libc", SetLastError = true)] public static extern int fsync(int file);
        [DllImport("libc", SetLastError = true)] public static extern int flock(int file, int operation);
        [DllImport("libc", SetLastError = true)] public static extern int fcntl(int file, int command, ref Lock area);
        [DllImport("libc", SetLastError = true)] public static extern int statx(int folder, string path, int flags, uint mask, out Stat found);
        [DllImport("libc", SetLastError = true)] public static extern int rename(string from, string to);
        [DllImport("libc", SetLastError = true)] public static extern int unlink(string path);
        [DllImport("libc")] public static extern IntPtr signal(int number, IntPtr handler);
        [DllImport("libc")] public static extern IntPtr strerror(int number);

        public static int Errno { get { return Marshal.GetLastWin32Error(); } }

        /// <summary>Throws the error of the last call if it failed.</summary>
        public static int Checked(int answer) {
            if (answer < 0) throw new Refused(Errno);
            return answer;
        }
    }

    private bool Perform(Action action) {
        try {
            action();
            return true;
        } catch (Exception failure) {
            Error = path + ": " + failure.Message;
            if (!wasReported) Report(Error + "; this call wrote nothing");
            wasReported = true;
            return false;
        }
    }

    /// <summary>Calls an action while a limit of file size does not end the process.</summary>
    private static void WithoutSignal(Action action) {
        const int sigXfsz = 25;
        IntPtr before = C.signal(sigXfsz, new IntPtr(1));
        try {
            action();
        } finally {
            C.signal(sigXfsz, before);
        }
    }

    private static void Report(string fact) {
        try {
            WriteAll(2, Encoding.UTF8.GetBytes("toyspec: " + fact + "\n"));
        } catch (Refused) {
            // There is no other place to say it.
        }
    }

    /// <summary>Returns a record of names and values in turn, then of members, which win.</summary>
    private static Dictionary<string, object> Record(IDictionary<string, object> members, params object[] own) {
        var record = new Dictionary<string, object>();
        for (int at = 0; at < own.Length; at += 2) record[(string) own[at]] = own[at + 1];
        if (members != null) foreach (var member in members) record[member.Key] = member.Value;
        return record;
    }

    private double Now { get { return clock.Elapsed.TotalSeconds; } }

    private double T() {
        lastT = Math.Max(lastT, Math.Round(Now - origin, 6));
        return lastT;
    }

    private static object Finite(double value, string name, Dictionary<string, object> nonfinite) {
        if (!double.IsNaN(value) && !double.IsInfinity(value)) return value;
        nonfinite[name] = double.IsNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
        return null;
    }

    private static bool IsThere(string path, int flags, out C.Stat found) { return C.statx(-100, path, flags, 0x7FF, out found) == 0; }

    private static bool IsThere(string path) {
        C.Stat found;
        return IsThere(path, C.NoFollow, out found);
    }

    private static C.Stat StatOf(int file) {
        C.Stat found;
        C.Checked(C.statx(file, "", C.EmptyPath, 0x7FF, out found));
        return found;
    }

    /// <summary>Locks the stream that is there, and reads what a resumption needs; changes nothing.</summary>
    private void Open() {
        Directory.CreateDirectory(directory);
        if (IsThere(path)) {
            if (exist == Exist.Fail) throw new Refused("there is a stream already; resume it, replace it, or use another directory");
            file = Locked(path, 0);
            try {
                if (exist == Exist.Resume) Scan();
            } catch {
                Close();
                throw;
            }
        }
        isOpen = true;
    }

    /// <summary>Returns a descriptor of the regular file at the path, with both locks.</summary>
    private static int Locked(string path, int flags) {
        for (;;) {
            C.Stat there;
            if (IsThere(path, 0, out there) && !there.IsRegular) throw new Refused("this is not a regular file");
            int file = C.Checked(C.open(path, C.RdWr | C.Append | C.NonBlock | C.CloExec | flags, 438));
            bool isTaken = false;
            try {
                C.Stat mine = StatOf(file);
                if (!mine.IsRegular) throw new Refused("this is not a regular file");
                if (!Lock(file)) throw new Refused("another writer holds this stream (it is locked)");
                // Between opening and locking, another writer may have moved the file.
                isTaken = IsThere(path, 0, out there) && mine.IsSame(there);
                if (isTaken) return file;
            } finally {
                if (!isTaken) C.close(file);
            }
        }
    }

    /// <summary>Takes both kinds of locks, or gives them up; returns false if another writer has one that is available.</summary>
    private static bool Lock(int file, bool takes = true) {
        const int exclusiveWithoutWaiting = 6, unlock = 8, ofdSetLock = 37;
        if (C.flock(file, takes ? exclusiveWithoutWaiting : unlock) != 0 && C.Errno == C.EAgain) return false;
        var whole = new C.Lock { Kind = (short) (takes ? 1 : 2) };  // F_WRLCK, F_UNLCK
        return C.fcntl(file, ofdSetLock, ref whole) == 0 || (C.Errno != C.EAgain && C.Errno != C.EAcces);
    }

    /// <summary>Takes in the last step and time of the stream; throws unless it is toy/v1 and not damaged.</summary>
    private void Scan() {
        byte[] content = ReadAll(0, StatOf(file).Size);
        var utf8 = new UTF8Encoding(false, true);
        bool isFirst = true;
        int begin = 0;
        for (int end; (end = Array.IndexOf(content, (byte) '\n', begin)) >= 0; begin = end + 1) {
            string line;
            try {
                line = utf8.GetString(content, begin, end - begin);
            } catch (DecoderFallbackException) {
                throw Parser.Damaged();
            }
            if (line.Trim(' ', '\t', '\r').Length == 0) continue;
            object kind, schema, step, seconds;
            var record = new Parser(line).Object();
            record.TryGetValue("kind", out kind);
            if (isFirst && ("run_start" != kind as string || (record.TryGetValue("schema", out schema) && "toy/v1" != schema as string)))
                throw new Refused("the stream is not of toy/v1");
            isFirst = false;
            if ("step" == kind as string && record.TryGetValue("step", out step) && step is double) LastStep = (long) (double) step;
            if (record.TryGetValue("t", out seconds) && seconds is double) lastT = Math.Max(lastT, (double) seconds);
        }
        fragment = content.Skip(begin).ToArray();
        origin = Now - lastT;
    }

    private byte[] ReadAll(long offset, long most) {
        var found = new byte[most];
        int count = 0;
        var block = new byte[1 << 20];
        for (int got; count < most; count += got) {
            got = C.Checked((int) C.pread(file, block, new IntPtr(Math.Min(block.Length, most - count)), offset + count));
            if (got == 0) break;
            Array.Copy(block, 0, found, count, got);
        }
        return count == most ? found : found.Take(count).ToArray();
    }

    /// <summary>Writes the first record of this process; if that fails, every file is as it was.</summary>
    private void Begin(Dictionary<string, object> first, bool isNew) {
        if (!isOpen || isBegun) throw new Refused(isOpen ? "the run has begun" : "the stream is not open");
        byte[] line = Line(first);
        var undo = new Stack<Action>();
        int old = -1;
        try {
            if (isNew && file >= 0 && StatOf(file).Size > 0) {
                if (exist != Exist.Replace) throw new Refused("the stream has records; resume it");
                old = file;
                file = -1;
                undo.Push(() => file = old);
                Keep(path, undo);
            }
            if (file < 0) {
                Directory.CreateDirectory(directory);
                file = Locked(path, C.New);
                undo.Push(() => {
                    C.unlink(path);
                    if (file >= 0) C.close(file);
                    file = -1;
                });
            }
            if (fragment.Length > 0) MoveFragment();
            Append(line, true);
        } catch {
            while (undo.Count > 0) undo.Pop()();
            throw;
        }
        isBegun = true;
        fragment = new byte[0];
        if (old < 0) return;
        C.close(old);
        MoveRanks();
    }

    /// <summary>Keeps the streams of the other ranks of the run that was replaced; one that a writer holds is of the new run.</summary>
    private void MoveRanks() {
        foreach (string rank in Directory.GetFiles(directory)) {
            if (!Regex.IsMatch(rank.Substring(directory.Length), @"\A/events\.rank-[1-9][0-9]{0,8}\.jsonl\z")) continue;
            int file = -1;
            try {
                file = Locked(rank, 0);
                if (StatOf(file).Size > 0) Keep(rank, new Stack<Action>());
            } catch (Refused) {
                // It stays where it is.
            }
            if (file >= 0) C.close(file);
        }
    }

    /// <summary>Copies the bytes after the last LF to a side file, then cuts them off.</summary>
    private void MoveFragment() {
        long offset = StatOf(file).Size - fragment.Length;
        string side = Free(path + ".torn-" + offset, 2, path + ".torn-" + offset);
        int copy = C.Checked(C.open(side, C.RdWr | C.New | C.CloExec, 438));
        try {
            WriteAll(copy, fragment);
            C.Checked(C.fsync(copy));
            SyncDirectory();
            C.Checked(C.ftruncate(file, offset));
        } catch {
            C.unlink(side);
            throw;
        } finally {
            C.close(copy);
        }
    }

    private void Append(Dictionary<string, object> record, bool sync) {
        if (!isBegun || file < 0) throw new Refused("the run is not open; call Start() or Resume() first");
        byte[] line = Line(record);
        FollowPath();
        try {
            Append(line, sync);
        } catch (Refused) {
            Dropped++;
            unsaid++;
            throw;
        }
        if (unsaid == 0 || file < 0) return;
        try {
            Append(Line(Record(null, "kind", "note", "t", T(), "text", unsaid + " records were dropped: they could not be written",
                "topic", "left-out", "dropped", Record(null, "record", unsaid))), false);
            unsaid = 0;
        } catch (Refused) {
            // The next record that fits tries again.
        }
    }

    /// <summary>Writes a line whole, or takes back what was written of it; after a failure that may last, closes the stream.</summary>
    private void Append(byte[] line, bool sync) {
        long begin = StatOf(file).Size;
        try {
            WriteAll(file, line);
        } catch (Refused failure) {
            bool isTemporary = new[] { C.ENoSpc, C.EDQuot, C.EFBig, C.EIntr, C.EAgain }.Contains(failure.Number);
            if (!TakeBack(begin, line) || !isTemporary) if (isBegun) Close();
            throw;
        }
        if (!sync) return;
        C.Checked(C.fsync(file));
        SyncDirectory();
    }

    /// <summary>Removes the part of a line that was written; false if that fails, or another process has written into it.</summary>
    private bool TakeBack(long begin, byte[] line) {
        try {
            long size = StatOf(file).Size - begin;
            if (size <= 0 || size >= line.Length) return true;
            return ReadAll(begin, size).SequenceEqual(line.Take((int) size)) && C.ftruncate(file, begin) == 0;
        } catch (Refused) {
            return false;
        }
    }

    /// <summary>Once a second, starts the stream again at its path if another file, or none, is there.</summary>
    private void FollowPath() {
        if (looked >= 0 && Now - looked < 1) return;
        looked = Now;
        C.Stat there, mine = StatOf(file);
        if (IsThere(path, 0, out there) && mine.IsSame(there)) return;
        Report(path + " was moved away; it is started again with its records");
        byte[] content = ReadAll(0, mine.Size);
        Directory.CreateDirectory(directory);
        if (IsThere(path)) Keep(path, new Stack<Action>());
        int again = Locked(path, C.New);
        try {
            WriteAll(again, content.Take(Array.LastIndexOf(content, (byte) '\n') + 1).ToArray());
        } catch {
            C.close(again);
            throw;
        }
        C.close(file);
        file = again;
    }

    /// <summary>Writes bytes with one call, or with further ones where that was cut short.</summary>
    private static void WriteAll(int file, byte[] bytes) {
        GCHandle pinned = GCHandle.Alloc(bytes, GCHandleType.Pinned);
        try {
            WithoutSignal(() => {
                for (int at = 0, tries = 0; at < bytes.Length;) {
                    int count = (int) C.write(file, pinned.AddrOfPinnedObject() + at, new IntPtr(bytes.Length - at));
                    int number = count < 0 ? C.Errno : C.ENoSpc;
                    at += Math.Max(count, 0);
                    tries = count > 0 ? 0 : tries + 1;
                    if ((count < 0 && number != C.EIntr) || tries > (count < 0 ? 100 : 3)) throw new Refused(number);
                }
            });
        } finally {
            pinned.Free();
        }
    }

    /// <summary>Renames the file at the path to .prev, and an earlier one of that name to the first free .prev-N.</summary>
    private static void Keep(string path, Stack<Action> undo) {
        string previous = path + ".prev";
        if (IsThere(previous)) {
            string older = Free(previous + "-1", 1, previous);
            C.Checked(C.rename(previous, older));
            undo.Push(() => C.rename(older, previous));
        }
        C.Checked(C.rename(path, previous));
        undo.Push(() => C.rename(previous, path));
    }

    private static string Free(string name, int number, string stem) {
        while (IsThere(name)) name = stem + "-" + number++;
        return name;
    }

    private void SyncDirectory() {
        int folder = C.Checked(C.open(directory, C.RdOnly | C.CloExec, 0));
        int number = C.fsync(folder) == 0 ? 0 : C.Errno;
        C.close(folder);
        if (number != 0 && number != C.EInval) throw new Refused(number);  // some file systems cannot sync a directory
    }

    /// <summary>Returns a record as a line; throws for what cannot be written unchanged.</summary>
    private static byte[] Line(Dictionary<string, object> record) {
        object kind, step;
        record.TryGetValue("kind", out kind);
        if (!(kind is string)) throw new Refused("a record needs a kind");
        bool isStep = !record.TryGetValue("step", out step) || (step is long && (long) step >= 0) || (step is int && (int) step >= 0);
        if (!isStep) throw new Refused("step must be an integer from 0 to 2^63 - 1");
        var text = new StringBuilder();
        Json(record, text, MaxDepth);
        text.Append('\n');
        byte[] line;
        try {
            line = new UTF8Encoding(false, true).GetBytes(text.ToString());
        } catch (EncoderFallbackException) {
            throw new Refused("text has half a surrogate pair");
        }
        if (line.Length > MaxLineBytes) throw new Refused("a line is longer than 16777216 bytes");
        return line;
    }

    private static void Json(object value, StringBuilder text, int depth) {
        if (depth == 0) throw new Refused("a record is nested more than " + MaxDepth + " levels deep");
        if (value == null) text.Append("null");
        else if (value is string) Quote((string) value, text);
        else if (value is bool) text.Append((bool) value ? "true" : "false");
        else if (value is double || value is float) text.Append(Digits(Convert.ToDouble(value)));
        else if (value is sbyte || value is byte || value is short || value is ushort || value is int || value is uint || value is long || value is ulong)
            text.Append(Convert.ToString(value, CultureInfo.InvariantCulture));
        else if (value is IDictionary) {
            char separator = '{';
            foreach (DictionaryEntry member in (IDictionary) value) {
                var name = member.Key as string;
                if (name == null) throw new Refused("the key " + member.Key + " must be text");
                text.Append(separator);
                separator = ',';
                Quote(name, text);
                text.Append(':');
                Json(member.Value, text, depth - 1);
            }
            text.Append(separator == '{' ? "{}" : "}");
        } else if (value is IList) {
            char separator = '[';
            foreach (object item in (IList) value) {
                text.Append(separator);
                separator = ',';
                Json(item, text, depth - 1);
            }
            text.Append(separator == '[' ? "[]" : "]");
        } else throw new Refused(value.GetType() + " cannot be written as JSON");
    }

    /// <summary>Returns the shortest digits that read back as the same number.</summary>
    private static string Digits(double number) {
        if (double.IsNaN(number) || double.IsInfinity(number)) throw new Refused("a number that is not finite cannot be written here");
        if (number == 0 && double.IsNegativeInfinity(1 / number)) return "-0.0";
        if (number == Math.Floor(number) && Math.Abs(number) < 1L << 53) return ((long) number).ToString(CultureInfo.InvariantCulture);
        foreach (string digits in new[] { "G15", "G16" }) {
            string text = number.ToString(digits, CultureInfo.InvariantCulture);
            if (double.Parse(text, CultureInfo.InvariantCulture) == number) return text;
        }
        return number.ToString("G17", CultureInfo.InvariantCulture);
    }

    private static void Quote(string words, StringBuilder text) {
        text.Append('"');
        foreach (char c in words) {
            if (c == '"' || c == '\\') text.Append('\\').Append(c);
            else if (c < 0x20) text.Append("\\u").Append(((int) c).ToString("x4", CultureInfo.InvariantCulture));
            else text.Append(c);
        }
        text.Append('"');
    }

    /// <summary>Reads the object in a line; throws for a line that has none.</summary>
    private sealed class Parser {
        private readonly string line;
        private int at;

        public Parser(string line) { this.line = line; }

        public static Refused Damaged() { return new Refused("a line is damaged; `toyspec check` says where"); }

        public Dictionary<string, object> Object() {
            var found = Value(MaxDepth) as Dictionary<string, object>;
            if (found == null || Peek() != 0) throw Damaged();
            return found;
        }

        private object Value(int depth) {
            char c = Peek();
            if (depth == 0) throw Damaged();
            if (c == '{' || c == '[') return Members(depth, c == '{' ? '}' : ']');
            if (c == '"') return Text();
            foreach (string word in new[] { "null", "true", "false" })
                if (string.CompareOrdinal(line, at, word, 0, word.Length) == 0) {
                    at += word.Length;
                    return word == "null" ? null : (object) (word == "true");
                }
            int begin = at;
            double number;
            while (at < line.Length && "+-.eE0123456789".IndexOf(line[at]) >= 0) at++;
            if (!double.TryParse(line.Substring(begin, at - begin), NumberStyles.Float, CultureInfo.InvariantCulture, out number)) throw Damaged();
            return number;
        }

        /// <summary>Returns the members of an object; those of an array are read and not kept.</summary>
        private Dictionary<string, object> Members(int depth, char end) {
            var found = new Dictionary<string, object>();
            at++;
            for (bool isFirst = true; Peek() != end; isFirst = false) {
                string name = "";
                if (!isFirst) Expect(',');
                if (end == '}') {
                    if (Peek() != '"') throw Damaged();
                    name = Text();
                    Expect(':');
                }
                found[name] = Value(depth - 1);
            }
            at++;
            return end == '}' ? found : null;
        }

        private string Text() {
            var found = new StringBuilder();
            for (at++; at < line.Length && line[at] != '"'; at++) {
                char c = line[at];
                if (c < 0x20) throw Damaged();
                if (c != '\\') {
                    found.Append(c);
                    continue;
                }
                int escape = ++at < line.Length ? "\"\\/bfnrtu".IndexOf(line[at]) : -1, code;
                if (escape < 0) throw Damaged();
                if (escape < 8) found.Append("\"\\/\b\f\n\r\t"[escape]);
                else {
                    if (at + 5 > line.Length || !int.TryParse(line.Substring(at + 1, 4), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out code))
                        throw Damaged();
                    found.Append((char) code);
                    at += 4;
                }
            }
            if (at++ >= line.Length) throw Damaged();
            return found.ToString();
        }

        private char Peek() {
            while (at < line.Length && " \t\r".IndexOf(line[at]) >= 0) at++;
            return at < line.Length ? line[at] : '\0';
        }

        private void Expect(char c) {
            if (Peek() != c) throw Damaged();
            at++;
        }
    }
}
