package toyspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const start = `{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}` + "\n"
const end = `{"kind":"run_end","t":9.0,"reason":"completed"}` + "\n"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, stream string, options Options) ([]Record, Report, error) {
	t.Helper()
	var records []Record
	report, err := Read(strings.NewReader(stream), options, func(record Record) error {
		records = append(records, record)
		return nil
	})
	if report.Committed+report.Fragment+report.GapBytes != int64(len(stream)) {
		t.Errorf("%q: %d + %d + %d bytes are accounted for, the size is %d",
			stream, report.Committed, report.Fragment, report.GapBytes, len(stream))
	}
	return records, report, err
}

func TestValidateLineNamesTheFirstRule(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64)
	for line, rule := range map[string]string{
		`{}`: "", ` {"a" : [1, -0.5e+3, "\ud83d\ude00"]} `: "", deep: "", `{"a":1,"a":2}`: "",
		`{"a":` + deep + `}`: "nested-too-deep", "\xef\xbb\xbf{}": "byte-order-mark", "{\x00": "nul-bytes", "{\"\xff\"}": "invalid-utf8",
		`{`: "invalid-json", `{"a":1,}`: "invalid-json", `{"a":01}`: "invalid-json", `{"a":.5}`: "invalid-json", `{} {}`: "invalid-json",
		"{\"a\":\"\t\"}": "invalid-json", `{"a":"\x"}`: "invalid-json", `{"a":nan}`: "invalid-json", `[1]`: "not-an-object", `NaN`: "not-an-object",
		`{"a":NaN}`: "non-finite-number", `{"a":[-Infinity]}`: "non-finite-number", `{"a":1e999}`: "non-finite-number",
		`{"a":` + strings.Repeat("9", 310) + `}`: "non-finite-number", `{"a":"\ud800"}`: "lone-surrogate", `{"\udc00":1}`: "lone-surrogate",
		`{"a":"\ud800\ud800\udc00"}`: "lone-surrogate", `{"a":"\udc00\ud800"}`: "lone-surrogate",
	} {
		if got := validateLine([]byte(line), true); got != rule {
			t.Errorf("%.60q is %q, expected %q", line, got, rule)
		}
	}
}

func TestModes(t *testing.T) {
	damaged := start + "{\n" + end
	for _, test := range []struct {
		stream  string
		mode    Mode
		records int
		state   State
		fails   bool
	}{
		{start + end, Strict, 2, Complete, false},
		{start, Strict, 1, Torn, true},
		{start + "{", Tail, 1, Torn, false},
		{"", Tail, 0, Torn, false},
		{damaged, Tail, 1, Damaged, true},
		{damaged, Prefix, 1, Damaged, false},
		{damaged, Salvage, 2, Damaged, false},
	} {
		records, report, err := readAll(t, test.stream, Options{Mode: test.mode})
		var refused *StreamError
		if len(records) != test.records || report.State != test.state || errors.As(err, &refused) != test.fails {
			t.Errorf("%q in mode %s: %d records, %s, %v", test.stream, test.mode, len(records), report.State, err)
		}
	}
}

func TestEveryTruncationIsAccountedFor(t *testing.T) {
	stream := start + `{"kind":"note","t":1.0,"text":"é"}` + "\n" + end
	for cut := range stream {
		_, report, err := readAll(t, stream[:cut], Options{})
		if err != nil || report.State != Torn || report.Records != strings.Count(stream[:cut], "\n") {
			t.Errorf("cut at %d: %+v, %v", cut, report, err)
		}
	}
}

func TestLongLineIsNotHeld(t *testing.T) {
	_, report, err := readAll(t, start+strings.Repeat("x", 1000)+"\n"+end, Options{Mode: Salvage, MaxLineBytes: 100})
	must(t, err)
	if report.Records != 2 || report.Gaps[0].Reason != "line-too-long" {
		t.Errorf("%+v", report)
	}
}

func TestNumberText(t *testing.T) {
	for text, number := range map[string]float64{
		"0.0": 0, "-0.0": math.Copysign(0, -1), "1.0": 1, "0.1": 0.1, "0.00001": 1e-5, "1e-6": 1e-6, "1.5e-6": 1.5e-6,
		"1000000000000000.0": 1e15, "1e16": 1e16, "1.2345678901234568e16": 12345678901234568, "5e-324": 5e-324,
		"1.7976931348623157e308": math.MaxFloat64, "123456.789": 123456.789,
	} {
		if got := Binary64Text(number); got != text {
			t.Errorf("%g is %s, expected %s", number, got, text)
		}
	}
	if got := Binary32Text(math.Float32frombits(0x15ae43fd)); got != "7.0385307e-26" {
		t.Errorf("binary32 15ae43fd is %s", got)
	}
	if got := Binary32Text(-math.Float32frombits(0x15ae43fe)); got != "-7.038531e-26" {
		t.Errorf("binary32 95ae43fe is %s", got)
	}
	if got := Binary32Text(float32(0.1)); got != "0.1" {
		t.Errorf("binary32 0.1 is %s", got)
	}
}

func TestNumberTextReadsBack(t *testing.T) {
	numbers := rand.New(rand.NewSource(7))
	for range 100_000 {
		number := math.Float64frombits(numbers.Uint64())
		if math.IsNaN(number) || math.IsInf(number, 0) {
			continue
		}
		if back, err := strconv.ParseFloat(Binary64Text(number), 64); err != nil || back != number {
			t.Fatalf("%x is written %s", number, Binary64Text(number))
		}
	}
}

func TestEncodeIsCanonical(t *testing.T) {
	line, err := Encode(Toy, map[string]any{
		"zz": 1, "step": 3, "kind": "step", "t": 1, "loss": math.NaN(), "extra": map[string]any{"b": 2, "a": 0.5}, "aa": "\x1f\"/é",
	})
	must(t, err)
	want := `{"kind":"step","t":1.0,"step":3,"loss":null,"extra":{"a":0.5,"b":2.0},"aa":"\u001f\"/é","zz":1}` + "\n"
	if string(line) != want {
		t.Errorf("got  %swant %s", line, want)
	}
}

func TestEncodeRefusesWhatNoReaderAccepts(t *testing.T) {
	deep := any(1)
	for range 64 {
		deep = []any{deep}
	}
	for _, record := range []map[string]any{
		{"kind": "step", "t": 1.0}, {"kind": "step", "t": math.NaN(), "step": 1}, {"kind": "step", "t": 1, "step": 1.5},
		{"kind": "step", "t": -1, "step": 1}, {"kind": "step", "t": 1, "step": 1, "phase": "warm-up"}, {"t": 1},
		{"kind": "run_start", "schema": "toy/v1", "t": 0, "run_id": "a/b"}, {"kind": "x", "deep": deep},
		{"kind": "run_end", "t": 0, "reason": "completed", "ended_at": "2026-02-30T00:00:00Z"},
		{"kind": "note", "t": 1, "text": big.NewInt(3)}, {"kind": "x", "value": struct{}{}}, {"kind": "x", "value": (*big.Int)(nil)},
		{"kind": "step", "t": 1, "step": json.Number("007")}, {"kind": "step", "t": 1, "step": json.Number("+7")},
		{"kind": "step", "t": 1, "step": json.Number(strings.Repeat("9", 400))}, {"kind": "x", "value": json.Number("1e400")},
		{"kind": "step", "t": 1, "step": 1, "loss": json.Number("1e400")}, {"kind": "step", "t": 1, "step": 1, "loss": json.Number("0x1p-2")},
		{"kind": "step", "t": 1, "step": 1, "loss": json.Number("Inf")}, {"kind": "x", "value": new(big.Int).Exp(big.NewInt(10), big.NewInt(400), nil)},
		{"kind": "note", "t": 1, "text": "\xff"}, {"kind": "x", "\xff": 1, "\xfe": 2}, {"kind": "x", "config": map[string]any{"\xed\xa0\x80": 1}},
	} {
		if line, err := Encode(Toy, record); !errors.Is(err, ErrRefused) {
			t.Errorf("%v is written as %s", record, line)
		}
	}
}

func TestWholeNumbersAreIntegers(t *testing.T) {
	for text, integer := range map[string]string{"1.0": "1", "1e3": "1000", "1.5e1": "15", "-0.0": "0", "-0": "0",
		"1e22": "10000000000000000000000", "1e23": "99999999999999991611392", "12345678901234567890.0": "12345678901234567168", "1.5": "1.5", "3": "3"} {
		line := `{"kind":"step","t":1.0,"step":` + text + `,"extra":{"a":1.0},"own":1.0}` + "\n"
		records, _, err := readAll(t, line, Options{})
		must(t, err)
		value := records[0].Value
		if got := words(value["step"], value["t"], value["own"], value["extra"]); got != integer+" 1.0 1.0 map[a:1.0]" {
			t.Errorf("%s is read as %s", text, got)
		}
	}
	records, _, err := readAll(t, `{"kind":"tap","t":1.0,"step":1,"layer":2.0,"shape":[1.0,2],"region":"x"}`+"\n", Options{})
	must(t, err)
	if got := words(records[0].Value["layer"], records[0].Value["shape"]); got != "2 [1 2]" {
		t.Errorf("inner integers are read as %s", got)
	}
	records, _, err = readAll(t, `{"step":1.0,"wall_time_ms":1}`+"\n", Options{})
	must(t, err)
	if got := records[0].Value["step"]; got != json.Number("1.0") {
		t.Errorf("in metrics/v1 1.0 is read as %v", got)
	}
}

func TestProfileOfAStream(t *testing.T) {
	directory := t.TempDir()
	manifest := filepath.Join(directory, "run.json")
	for _, test := range []struct {
		stream, name, manifest string
		profile                Profile
		state                  State
	}{
		{start, "", "", Toy, Torn}, {`{"kind":"x","t":1}`, "", "", Toy, Torn}, {`{"kind":"run_start"}`, "", "", Toy, Torn},
		{`{"kind":"x"}`, "", "", None, Complete}, {`{"kind":3,"t":1}`, "", "", None, Complete}, {`{"type":"scalar"}`, "", "", Kaun, Complete},
		{`{"type":"user"}`, "", "", None, Complete}, {`{"step":1,"wall_time_ms":1}`, "", "", Metrics, Complete}, {`{"step":1}`, "metrics.jsonl", "", None, Complete},
		{`{"type":"user"}`, "", `{"run_id":"a"}`, Kaun, Complete}, {`{"type":"user"}`, "", `{"run_id":"a","kind":"run_start"}`, None, Complete},
		{"", "", "", Toy, Torn}, {"", "metrics.jsonl.gz", "", Metrics, Torn}, {"", "", `{"run_id":"a"}`, Kaun, Torn}, {"", "x.jsonl", "", Toy, Torn},
		{"{", "events.jsonl", "", Toy, Damaged}, {"{", "x.jsonl", "", None, Damaged}, {"{", "metrics.jsonl", "", Metrics, Damaged},
	} {
		os.Remove(manifest)
		if test.manifest != "" {
			must(t, os.WriteFile(manifest, []byte(test.manifest), 0o666))
		}
		stream := test.stream
		if stream != "" {
			stream = strings.TrimSuffix(stream, "\n") + "\n"
		}
		report, err := read(strings.NewReader(stream), Options{Mode: Salvage, Name: test.name}, directory, func(Record) error { return nil })
		if err != nil || report.Profile != test.profile || report.State != test.state {
			t.Errorf("%q named %q beside %q is %q, %s, expected %q, %s", test.stream, test.name, test.manifest, report.Profile, report.State, test.profile, test.state)
		}
	}
}

func TestWriterKeepsTimeAndEnds(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "run")
	w, err := Open(directory, Replace)
	must(t, err)
	w.now = func() time.Time { return w.start.Add(time.Second) }
	must(t, w.Write(map[string]any{"kind": "run_start", "schema": "toy/v1", "run_id": "run"}))
	w.now = func() time.Time { return w.start }
	must(t, w.Write(map[string]any{"kind": "step", "step": 1}))
	must(t, w.Write(map[string]any{"kind": "run_end", "reason": "completed"}))
	if err := w.Write(map[string]any{"kind": "note", "text": "late"}); !errors.Is(err, ErrClosed) {
		t.Errorf("a record after run_end gives %v", err)
	}
	must(t, w.Close())
	var times []string
	report, err := ReadFile(directory, Options{Mode: Strict}, func(record Record) error {
		times = append(times, fmt.Sprint(record.Value["t"]))
		return nil
	})
	if err != nil || report.Records != 3 || strings.Join(times, " ") != "1.0 1.0 1.0" {
		t.Errorf("%v, %+v, %v", times, report, err)
	}
}

func TestSequenceRefusesWhatBreaksAStream(t *testing.T) {
	begin := map[string]any{"kind": "run_start", "t": 0}
	step := func(number int) map[string]any { return map[string]any{"kind": "step", "t": 1, "step": number} }
	for _, records := range [][]map[string]any{
		{step(1)}, {begin, begin}, {begin, step(2), step(2)}, {begin, {"kind": "run_end"}, step(1)},
	} {
		var sequence Sequence
		var err error
		for _, record := range records {
			if record, err = sequence.Admit(record); err == nil {
				sequence.Note(record)
			}
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%v is admitted", records)
		}
	}
}

func TestExistingStream(t *testing.T) {
	for _, test := range []struct {
		stream string
		exist  Exist
		err    error
	}{
		{start, Fail, ErrExists}, {start + end, Resume, nil}, {start + end + "{", Resume, nil}, {start + "{\n", Resume, ErrDamaged}, {start, Resume, nil}, {start, Replace, nil},
	} {
		directory := t.TempDir()
		path := filepath.Join(directory, "events.jsonl")
		must(t, os.WriteFile(path, []byte(test.stream), 0o666))
		w, err := Open(directory, test.exist)
		if !errors.Is(err, test.err) {
			t.Errorf("%q with %s gives %v", test.stream, test.exist, err)
		}
		if err == nil && test.exist == Replace {
			must(t, w.Write(map[string]any{"kind": "run_start", "run_id": "run"}))
		}
		if err == nil {
			must(t, w.Close())
		} else if kept, _ := os.ReadFile(path); string(kept) != test.stream {
			t.Errorf("%q was changed to %q", test.stream, kept)
		}
		if previous, _ := os.ReadFile(path + ".prev"); test.exist == Replace && string(previous) != test.stream {
			t.Errorf("the old stream is %q", previous)
		}
	}
}

func TestResumeMovesTheFragment(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "events.jsonl")
	must(t, os.WriteFile(path, []byte(start+`{"kind":"step","t":5.0,"step":1}`+"\n"+`{"kind":"st`), 0o666))
	w, err := Open(directory, Resume)
	must(t, err)
	if _, err := Open(directory, Resume); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer gets %v", err)
	}
	must(t, w.Write(map[string]any{"kind": "run_resume", "from_step": 1}))
	must(t, w.Close())
	records, _, err := readAll(t, string(content(t, path)), Options{})
	must(t, err)
	if sideFile := content(t, fmt.Sprintf("%s.torn-%d", path, len(start)+33)); string(sideFile) != `{"kind":"st` {
		t.Errorf("kept %q", sideFile)
	}
	if number, _ := floatValue(records[2].Value["t"]); len(records) != 3 || number < 5 {
		t.Errorf("t goes on with %v", records[2].Value["t"])
	}
}

func TestGoroutinesShareAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := Append(path, Metrics)
	must(t, err)
	var group sync.WaitGroup
	for step := range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := w.Write(map[string]any{"step": step, "wall_time_ms": 1, "loss": float32(0.1), "grad_norm": nil, "throughput_samples_per_sec": 8}); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	must(t, w.Close())
	report, err := ReadFile(path, Options{Mode: Strict}, func(record Record) error {
		if !strings.Contains(string(record.Raw), `"loss":0.1,"grad_norm":null,"throughput_samples_per_sec":8.0,"extra":{}}`) {
			t.Errorf("%s", record.Raw)
		}
		return nil
	})
	if err != nil || report.Records != 50 {
		t.Errorf("%+v, %v", report, err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}
