//go:build unix

package toyspec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	runStart = map[string]any{"kind": "run_start", "run_id": "run"}
	runEnd   = map[string]any{"kind": "run_end", "reason": "completed"}
)

func stepOf(number int) map[string]any {
	return map[string]any{"kind": "step", "step": number, "loss": 2.5}
}

// warnings collects what writers say until the test ends.
func warnings(t *testing.T) *[]string {
	t.Helper()
	var said []string
	before := Warn
	Warn = func(message string) { said = append(said, message) }
	t.Cleanup(func() { Warn = before })
	return &said
}

func started(t *testing.T) (*Writer, string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "run")
	w, err := Open(directory, Replace)
	must(t, err)
	must(t, w.Write(runStart))
	t.Cleanup(func() { w.Close() })
	return w, filepath.Join(directory, "events.jsonl")
}

// withRoomFor lets no file grow beyond a size until the function has returned.
func withRoomFor(t *testing.T, size int64, do func()) {
	t.Helper()
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limited := before
	limited.Cur = uint64(size)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited))
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	do()
}

// resumed opens a torn stream and writes run_resume, if it can.
func resumed(directory string) error {
	w, err := Open(directory, Resume)
	if err == nil {
		err = errors.Join(w.Write(map[string]any{"kind": "run_resume", "from_step": 0}), w.Close())
	}
	return err
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func namesIn(t *testing.T, directory string) string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	must(t, err)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return strings.Join(names, " ")
}

func TestEveryReplacedStreamIsKept(t *testing.T) {
	directory := t.TempDir()
	for run := range 4 {
		w, err := Open(directory, Replace)
		must(t, err)
		must(t, w.Write(map[string]any{"kind": "run_start", "run_id": fmt.Sprint("run-", run)}))
		must(t, w.Close())
	}
	for name, run := range map[string]string{"": "run-3", ".prev": "run-2", ".prev-2": "run-1", ".prev-1": "run-0"} {
		if kept := string(content(t, filepath.Join(directory, "events.jsonl"+name))); !strings.Contains(kept, run) {
			t.Errorf("events.jsonl%s holds %q, expected %s", name, kept, run)
		}
	}
}

func TestEmptyStreamDoesNotReplaceAnEarlierOne(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	must(t, os.WriteFile(path, nil, 0o666))
	must(t, os.WriteFile(path+".prev", []byte(start), 0o666))
	w, err := Open(directory, Replace)
	must(t, err)
	must(t, w.Write(runStart))
	must(t, w.Close())
	if names := namesIn(t, directory); names != "events.jsonl events.jsonl.prev" || string(content(t, path+".prev")) != start {
		t.Errorf("the directory holds %s", names)
	}
}

func TestRefusedStartChangesNothing(t *testing.T) {
	root := t.TempDir()
	directory := filepath.Join(root, "runs", "a")
	w, err := Open(directory, Replace)
	must(t, err)
	if err := w.Write(map[string]any{"kind": "run_start", "run_id": "-rf"}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), directory) {
		t.Errorf("the run id -rf gives %v", err)
	}
	must(t, w.Close())
	if names := namesIn(t, root); names != "" {
		t.Errorf("%s is left", names)
	}
	must(t, os.MkdirAll(directory, 0o777))
	path := filepath.Join(directory, "events.jsonl")
	must(t, os.WriteFile(path, []byte(start), 0o666))
	must(t, os.WriteFile(path+".prev", []byte(end), 0o666))
	w, err = Open(directory, Replace)
	must(t, err)
	must(t, w.Close())
	if names := namesIn(t, directory); names != "events.jsonl events.jsonl.prev" || string(content(t, path)) != start || string(content(t, path+".prev")) != end {
		t.Errorf("%s is left", names)
	}
}

func TestLongFragmentsAreKeptEachInItsFile(t *testing.T) {
	warnings(t)
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	fragments := []string{strings.Repeat("a", 200_000), strings.Repeat("b", 200_000), "c"}
	for i, fragment := range fragments {
		must(t, os.WriteFile(path, []byte(start+fragment), 0o666))
		must(t, resumed(directory))
		name := fmt.Sprintf("%s.torn-%d%s", path, len(start), []string{"", "-2", "-3"}[i])
		if kept := string(content(t, name)); kept != fragment {
			t.Errorf("%s holds %d bytes", name, len(kept))
		}
		if left := string(content(t, path)); !strings.HasPrefix(left, start+`{"kind":"run_resume"`) || !strings.HasSuffix(left, "}\n") {
			t.Errorf("the stream is %.200q", left)
		}
	}
	if kept := string(content(t, fmt.Sprintf("%s.torn-%d", path, len(start)))); kept != fragments[0] {
		t.Error("the first side file was overwritten")
	}
}

func TestSideFileIsOnTheDiskBeforeTheCut(t *testing.T) {
	warnings(t)
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	must(t, os.WriteFile(path, []byte(start+"{"), 0o666))
	before := system
	defer func() { system = before }()
	var steps []string
	system.syncFile = func(file *os.File) error {
		steps = append(steps, fmt.Sprint(filepath.Base(file.Name()), " at ", sizeOf(t, path)))
		return nil
	}
	system.syncDirectory = func(string) error {
		steps = append(steps, fmt.Sprint("directory at ", sizeOf(t, path)))
		return nil
	}
	must(t, resumed(directory))
	length := len(start)
	want := fmt.Sprintf("[events.jsonl.torn-%d at %d directory at %d events.jsonl at %d]", length, length+1, length+1, length)
	if fmt.Sprint(steps) != want {
		t.Errorf("synced %s, expected %s", steps, want)
	}
}

func TestFullDiskWhileResumingChangesNothing(t *testing.T) {
	warnings(t)
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	torn := start + strings.Repeat("a", 200_000)
	must(t, os.WriteFile(path, []byte(torn), 0o666))
	withRoomFor(t, 100_000, func() {
		if err := resumed(directory); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("resuming gives %v", err)
		}
	})
	if names := namesIn(t, directory); names != "events.jsonl" || string(content(t, path)) != torn {
		t.Errorf("%s is left", names)
	}
	if err := resumed(directory); err != nil {
		t.Fatalf("with room again: %v", err)
	}
}

func TestRefusedResumeChangesNothing(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	must(t, os.WriteFile(path, []byte(start+"{"), 0o666))
	w, err := Open(directory, Resume)
	must(t, err)
	if err := w.Write(stepOf(1)); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	must(t, w.Close())
	if names := namesIn(t, directory); names != "events.jsonl" || string(content(t, path)) != start+"{" {
		t.Errorf("%s is left", names)
	}
}

func TestRecordsThatDoNotFitAreDroppedAndCounted(t *testing.T) {
	w, path := started(t)
	must(t, w.Write(stepOf(1)))
	whole := string(content(t, path))
	withRoomFor(t, int64(len(whole)+10), func() {
		for number := 2; number < 4; number++ {
			if err := w.Write(stepOf(number)); !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), path) {
				t.Errorf("step %d gives %v", number, err)
			}
			if left := string(content(t, path)); left != whole {
				t.Errorf("%q is left", left[len(whole):])
			}
		}
	})
	must(t, w.Write(stepOf(4)))
	if !strings.Contains(string(content(t, path)), `"kind":"note"`) {
		t.Error("no note follows the first record that fits")
	}
	must(t, w.Write(runEnd))
	if w.Dropped() != 2 {
		t.Errorf("%d are counted", w.Dropped())
	}
	records, report, err := readAll(t, string(content(t, path)), Options{Mode: Strict})
	if err != nil || report.Records != 5 || records[3].Value["text"] != "2 records before this one were dropped: file too large" {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestNoteOnDroppedRecordsComesBeforeTheEnd(t *testing.T) {
	w, path := started(t)
	withRoomFor(t, sizeOf(t, path), func() {
		if err := w.Write(stepOf(1)); !errors.Is(err, ErrDropped) {
			t.Error(err)
		}
	})
	must(t, w.End("completed", ""))
	records, _, err := readAll(t, string(content(t, path)), Options{Mode: Strict})
	if err != nil || len(records) != 3 || records[1].Kind != "note" || records[2].Kind != "run_end" {
		t.Errorf("%v, %v", records, err)
	}
}

func TestRollBackNeverCutsOrGrowsWhatOthersChanged(t *testing.T) {
	for name, change := range map[string]func(path string) string{
		"appended": func(path string) string {
			file, _ := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			file.WriteString(`{"kind":"note","t":1.0,"text":"of another process"}` + "\n")
			file.Close()
			return ""
		},
		"emptied": func(path string) string { os.Truncate(path, 0); return "" },
	} {
		w, path := started(t)
		must(t, w.Write(stepOf(1)))
		change(path)
		left := string(content(t, path))
		withRoomFor(t, int64(len(left)+10), func() {
			if err := w.Write(stepOf(2)); !errors.Is(err, ErrDropped) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if after := string(content(t, path)); after != left {
			t.Errorf("%s: %q became %q", name, left, after)
		}
		must(t, w.Write(stepOf(3)))
	}
}

func TestErrorThatStaysClosesTheWriterForGood(t *testing.T) {
	w, path := started(t)
	must(t, w.stream.file.Close())
	if err := w.Write(stepOf(1)); err == nil || errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), path) {
		t.Errorf("a closed descriptor gives %v", err)
	}
	if err := w.Write(stepOf(2)); !errors.Is(err, ErrClosed) {
		t.Errorf("later records give %v", err)
	}
}

func TestFailedSyncIsNeverRetried(t *testing.T) {
	before := system
	defer func() { system = before }()
	calls := 0
	system.syncFile = func(*os.File) error {
		calls++
		if calls == 1 {
			return syscall.EIO
		}
		return nil
	}
	w, err := Open(t.TempDir(), Replace)
	must(t, err)
	for _, record := range []map[string]any{runStart, runEnd} {
		if err := w.Write(record); !errors.Is(err, ErrNotDurable) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s gives %v", record["kind"], err)
		}
	}
	if calls != 1 {
		t.Errorf("%d syncs", calls)
	}
}

func TestFailedSyncOfTheDirectoryIsReported(t *testing.T) {
	before := system
	defer func() { system = before }()
	system.syncDirectory = func(string) error { return syscall.EIO }
	w, err := Open(t.TempDir(), Replace)
	must(t, err)
	if err := w.Write(runStart); !errors.Is(err, ErrNotDurable) {
		t.Errorf("run_start gives %v", err)
	}
}

func TestMissingLocksDoNotMeanAnotherWriter(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL} {
		if err := lockBy(func() error { return number }); err != nil {
			t.Errorf("%v gives %v", number, err)
		}
	}
	for _, number := range []syscall.Errno{syscall.EWOULDBLOCK, syscall.EACCES} {
		if err := lockBy(func() error { return number }); !errors.Is(err, ErrLocked) {
			t.Errorf("%v gives %v", number, err)
		}
	}
}

func TestStreamThatIsReplacedBeforeItIsLockedIsOpenedAgain(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "metrics.jsonl")
	must(t, os.WriteFile(path, nil, 0o666))
	before := system
	defer func() { system = before }()
	system.lock = func(file *os.File) error {
		system = before
		must(t, os.Rename(path, path+".old"))
		must(t, os.WriteFile(path, nil, 0o666))
		return before.lock(file)
	}
	w, err := Append(path, Metrics)
	must(t, err)
	must(t, w.Write(map[string]any{"step": 1, "wall_time_ms": 1, "loss": nil, "grad_norm": nil, "throughput_samples_per_sec": nil}))
	must(t, w.Close())
	if sizeOf(t, path) == 0 || sizeOf(t, path+".old") != 0 {
		t.Error("the record went to the old file")
	}
}

func TestOtherWritersAreSeen(t *testing.T) {
	if os.Getenv("TOYSPEC_LOCK") != "" {
		t.Skip("this is the other process")
	}
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	for _, kind := range []string{"flock", "record"} {
		must(t, os.WriteFile(path, []byte(start), 0o666))
		other := exec.Command(os.Args[0], "-test.run=^TestHoldALock$")
		other.Env = append(os.Environ(), "TOYSPEC_LOCK="+kind, "TOYSPEC_PATH="+path)
		in, err := other.StdinPipe()
		must(t, err)
		out, err := other.StdoutPipe()
		must(t, err)
		must(t, other.Start())
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		for _, exist := range []Exist{Replace, Resume} {
			if _, err := Open(directory, exist); !errors.Is(err, ErrLocked) {
				t.Errorf("%s against a lock by %s gives %v", exist, kind, err)
			}
		}
		in.Close()
		must(t, other.Wait())
		w, err := Open(directory, Resume)
		must(t, err)
		content(t, path) // a lock of the process, not of the file, would be gone now
		other = exec.Command(os.Args[0], "-test.run=^TestHoldALock$")
		other.Env = append(os.Environ(), "TOYSPEC_LOCK="+kind, "TOYSPEC_PATH="+path)
		if err := other.Run(); err == nil {
			t.Errorf("another process got its lock by %s", kind)
		}
		must(t, w.Close())
	}
}

// TestHoldALock is the other process of TestOtherWritersAreSeen: it holds a lock until its input ends.
func TestHoldALock(t *testing.T) {
	kind := os.Getenv("TOYSPEC_LOCK")
	if kind == "" {
		t.Skip("run by TestOtherWritersAreSeen")
	}
	file, err := os.OpenFile(os.Getenv("TOYSPEC_PATH"), os.O_RDWR, 0)
	must(t, err)
	if kind == "flock" {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	} else {
		err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	}
	must(t, err)
	os.Stdout.WriteString("!")
	os.Stdin.Read(make([]byte, 1))
}

func TestOnlyRegularFilesAreWritten(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"null":      func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		for _, exist := range []Exist{Replace, Fail, Resume} {
			directory := t.TempDir()
			path := filepath.Join(directory, "events.jsonl")
			must(t, make(path))
			done := time.AfterFunc(5*time.Second, func() { panic(name + " blocks the program") })
			w, err := Open(directory, exist)
			done.Stop()
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s with %s gives %v", name, exist, err)
				w.Close()
			}
			if names := namesIn(t, directory); names != "events.jsonl" {
				t.Errorf("%s with %s leaves %s", name, exist, names)
			}
		}
	}
}

func TestStreamThatIsGoneIsStartedAgain(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"deleted":           os.Remove,
		"renamed":           func(path string) error { return os.Rename(path, path+".moved") },
		"deleted as a run":  func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced by bytes": func(path string) error { os.Remove(path); return os.WriteFile(path, []byte("other\n"), 0o666) },
		"replaced by none":  func(path string) error { os.Remove(path); return os.WriteFile(path, nil, 0o666) },
	} {
		said := warnings(t)
		w, path := started(t)
		must(t, w.Write(stepOf(1)))
		must(t, change(path))
		must(t, w.Write(stepOf(2))) // less than a second after the last look
		w.stream.looked = w.stream.looked.Add(-time.Hour)
		must(t, w.Write(stepOf(3)))
		must(t, w.Write(runEnd))
		if _, report, err := readAll(t, string(content(t, path)), Options{Mode: Strict}); err != nil || report.Records != 5 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		if len(*said) != 1 || !strings.HasPrefix((*said)[0], path) || !strings.Contains((*said)[0], "started again") {
			t.Errorf("%s: %q is said", name, *said)
		}
		if kept, _ := os.ReadFile(path + ".prev"); name == "replaced by bytes" && string(kept) != "other\n" {
			t.Errorf("what had replaced the stream is %q", kept)
		}
	}
}

func TestLogThatIsGoneIsStartedAgain(t *testing.T) {
	said := warnings(t)
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := Append(path, Metrics)
	must(t, err)
	for step := range 3 {
		must(t, w.Write(map[string]any{"step": step, "wall_time_ms": step, "loss": nil, "grad_norm": nil, "throughput_samples_per_sec": nil}))
		if step == 1 {
			os.Remove(path)
		}
		w.stream.looked = w.stream.looked.Add(-time.Hour)
	}
	must(t, w.Close())
	if len(*said) != 1 || !strings.Contains((*said)[0], path) {
		t.Errorf("%q is said", *said)
	}
	if records, _, err := readAll(t, string(content(t, path)), Options{Mode: Strict}); err != nil || len(records) != 3 {
		t.Errorf("the new file has %d entries, %v", len(records), err)
	}
}

func TestResumedStreamBeginsWithRunResume(t *testing.T) {
	directory := t.TempDir()
	must(t, os.WriteFile(filepath.Join(directory, "events.jsonl"), []byte(start), 0o666))
	w, err := Open(directory, Resume)
	must(t, err)
	defer w.Close()
	for _, record := range []map[string]any{stepOf(1), {"kind": "note", "text": "x"}, runEnd} {
		if err := w.Write(record); !errors.Is(err, ErrRefused) {
			t.Errorf("%s first gives %v", record["kind"], err)
		}
	}
	must(t, w.Write(map[string]any{"kind": "run_resume", "from_step": 0}))
	must(t, w.Write(stepOf(1)))
}

func TestStreamsOfAnotherFormatAreLeftAlone(t *testing.T) {
	for stream, profile := range map[string]Profile{`{"type":"user"}` + "\n{": Toy, `{"step":1,"loss":2}` + "\n{": Metrics, start + "{": Kaun} {
		directory := t.TempDir()
		path := filepath.Join(directory, profileTables[profile].file)
		must(t, os.WriteFile(path, []byte(stream), 0o666))
		var err error
		if profile == Toy {
			_, err = Open(directory, Resume)
		} else {
			_, err = Append(path, profile)
		}
		if !errors.Is(err, ErrProfile) || namesIn(t, directory) != filepath.Base(path) || !bytes.Equal(content(t, path), []byte(stream)) {
			t.Errorf("%q as %s gives %v", stream, profile, err)
		}
	}
}
