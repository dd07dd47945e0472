package toyspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mode says what reading does with a stream that is not complete.
type Mode string

// The reading modes.
const (
	Strict  Mode = "strict"  // anything but a complete stream is an error
	Tail    Mode = "tail"    // a torn end is reported, damage is an error
	Prefix  Mode = "prefix"  // reading stops at the first damage
	Salvage Mode = "salvage" // unreadable lines are skipped
)

// State is what the bytes of a stream show of its end.
type State string

// The states of a stream.
const (
	Complete State = "complete"
	Torn     State = "torn"
	Damaged  State = "damaged"
)

// MaxListedGaps bounds the gaps that a report lists; all are counted.

// Record is one committed JSON object.
type Record struct {
	Raw    []byte         // the line without its LF, as it is in the stream
	Line   int            // line number, from 1
	Offset int64          // byte offset of the line, from 0
	Kind   string         // what the record declares to be; "" where it declares nothing
	Value  map[string]any // numbers are json.Number; where the schema asks for an integer, digits only

	Profile Profile // of the stream
}

// Gap is a run of bytes that gave no record.
type Gap struct {
	Line   int
	Offset int64
	Length int64
	Reason string // the rule that the line breaks, or "stopped" for what was left unread
}

// Report accounts for every byte of a stream: Committed + Fragment + GapBytes = Size.
type Report struct {
	Profile   Profile // None where the format is not known: the records are given all the same
	State     State
	Records   int
	Committed int64 // bytes of readable and blank lines, with their LFs
	Fragment  int64 // bytes after the last LF
	Gaps      []Gap // the first MaxListedGaps, then what was left unread
	GapBytes  int64
	Size      int64
}

// StreamError says why a mode refuses a stream.
type StreamError struct {
	Path   string
	Line   int
	Offset int64
	Reason string
	Report Report
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("%s:%d: %s at byte %d", e.Path, e.Line, e.Reason, e.Offset)
}

// Options change how a stream is read; the zero value reads in mode Tail.
type Options struct {
	Mode         Mode
	Profile      Profile // detected where it is None
	Name         string  // name of the stream's file, where the source is not a path
	MaxLineBytes int     // MaxLineBytes where it is 0
}

// ReadFile calls each for every record of the stream at path, which may be a bundle's directory, and returns the report.
// It returns a *StreamError where the mode refuses the stream, and the error of each, which ends reading.
func ReadFile(path string, options Options, each func(Record) error) (Report, error) {
	path, err := streamAt(path)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	if options.Name == "" {
		options.Name = path
	}
	return read(file, options, filepath.Dir(path), each)
}

// Read is like ReadFile for a stream that comes from a reader.
func Read(source io.Reader, options Options, each func(Record) error) (Report, error) {
	return read(source, options, "", each)
}

// streamAt returns the path of the stream in a bundle's directory, and any other path unchanged.
func streamAt(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return path, nil
	}
	for _, name := range []string{profileTables[Toy].file, profileTables[Metrics].file} {
		stream := filepath.Join(path, name)
		if _, err := os.Stat(stream); err == nil {
			return stream, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s: no events.jsonl or metrics.jsonl in it", path)
}

type reading struct {
	options Options
	report  Report
	last    string
	each    func(Record) error
	stopped *Gap
	around  environment
}

func read(source io.Reader, options Options, beside string, each func(Record) error) (Report, error) {
	if options.Mode == "" {
		options.Mode = Tail
	}
	if options.MaxLineBytes == 0 {
		options.MaxLineBytes = MaxLineBytes
	}
	r := &reading{options: options, each: each, around: environment{options.Name, beside}}
	r.report.Profile = options.Profile
	if err := r.all(source); err != nil {
		return r.report, err
	}
	if r.report.Profile == None && r.report.Records == 0 {
		r.report.Profile = r.around.profileWithoutRecord(r.report.GapBytes > 0)
	}
	return r.report, r.finish()
}

// all goes over the lines of the source; a line beyond the limit is counted and not held.
func (r *reading) all(source io.Reader) error {
	lines := newLineSplitter(source, r.options.MaxLineBytes)
	for number := 1; r.stopped == nil; number++ {
		line, err := lines.next()
		if err == io.EOF {
			r.report.Fragment = line.length
			r.report.Size = line.offset + line.length
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.line(line, number); err != nil {
			return err
		}
	}
	rest, err := io.Copy(io.Discard, lines.reader)
	if err != nil {
		return err
	}
	r.report.Size = lines.offset + rest
	if rest > 0 {
		r.gap(Gap{r.stopped.Line + 1, lines.offset, rest, "stopped"})
	}
	return nil
}

func (r *reading) line(line splitLine, number int) error {
	whole := line.length + 1
	reason := "line-too-long"
	if line.data != nil {
		if isBlank(line.data) {
			r.report.Committed += whole
			return nil
		}
		reason = validateLine(line.data, number == 1)
	}
	if reason != "" {
		gap := Gap{number, line.offset, whole, reason}
		r.gap(gap)
		if r.options.Mode != Salvage {
			r.stopped = &gap
		}
		return nil
	}
	value := decodeObject(line.data)
	if r.report.Profile == None && r.report.Records == 0 {
		r.report.Profile = r.around.profileOf(value)
	}
	if profileTables[r.report.Profile].wholeNumbers {
		wholeIntegers(value, r.report.Profile.fieldsOf(value))
	}
	kind := ""
	if tag := profileTables[r.report.Profile].tag; tag != "" {
		kind, _ = value[tag].(string)
	}
	r.report.Committed += whole
	r.report.Records++
	r.last = kind
	return r.each(Record{line.data, number, line.offset, kind, value, r.report.Profile})
}

func (r *reading) gap(gap Gap) {
	r.report.GapBytes += gap.Length
	if len(r.report.Gaps) < MaxListedGaps || gap.Reason == "stopped" {
		r.report.Gaps = append(r.report.Gaps, gap)
	}
}

func (r *reading) finish() error {
	last := profileTables[r.report.Profile].last
	switch {
	case r.report.GapBytes > 0:
		r.report.State = Damaged
	case r.report.Fragment > 0 || r.report.Records == 0 || last != "" && r.last != last:
		r.report.State = Torn
	default:
		r.report.State = Complete
	}
	if r.stopped != nil && r.options.Mode != Prefix {
		return &StreamError{r.options.Name, r.stopped.Line, r.stopped.Offset, r.stopped.Reason, r.report}
	}
	if r.options.Mode == Strict && r.report.State != Complete {
		return &StreamError{r.options.Name, 1, r.report.Committed, string(r.report.State), r.report}
	}
	return nil
}

// decodeObject returns the object that a validated text holds; of a repeated key, the last value. Numbers keep their text,
// but for the zero of digits alone, which has no sign.
func decodeObject(data []byte) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		panic(fmt.Sprintf("toyspec: the line validation accepted what encoding/json refuses: %v", err))
	}
	if bytes.Contains(data, []byte("-0")) {
		withoutSigns(value)
	}
	return value
}

// withoutSigns takes the sign off every zero of digits alone inside a value, and returns the value.
func withoutSigns(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = withoutSigns(item)
		}
	case []any:
		for i, item := range v {
			v[i] = withoutSigns(item)
		}
	case json.Number:
		if v == "-0" {
			return json.Number("0")
		}
	}
	return value
}

// wholeIntegers gives the numbers that are typed as integer, and whose value is whole, the text of an integer.
func wholeIntegers(object map[string]any, fields []field) {
	for i := range fields {
		if value, ok := object[fields[i].name]; ok {
			object[fields[i].name] = wholeInteger(value, &fields[i])
		}
	}
}

func wholeInteger(value any, declared *field) any {
	switch v := value.(type) {
	case json.Number:
		if declared.form == formInteger {
			return wholeNumber(v)
		}
	case map[string]any:
		if declared.form == formObject {
			wholeIntegers(v, declared.fields)
		} else if declared.form == formMap {
			for key, item := range v {
				v[key] = wholeInteger(item, declared.of)
			}
		}
	case []any:
		if declared.form == formArray {
			for i, item := range v {
				v[i] = wholeInteger(item, declared.of)
			}
		}
	}
	return value
}

// wholeNumber returns the digits of a number whose nearest binary64 value is whole, and any other number unchanged.
func wholeNumber(number json.Number) json.Number {
	if !strings.ContainsAny(string(number), ".eE") {
		return number
	}
	value, err := strconv.ParseFloat(string(number), 64)
	if err != nil || value != math.Trunc(value) {
		return number
	}
	digits, _ := new(big.Float).SetFloat64(value).Int(nil)
	return json.Number(digits.String())
}
