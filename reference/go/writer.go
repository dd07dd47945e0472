package toyspec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// safeRunID is what names a directory on every system.
var safeRunID = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._-]{0,%d}\z`, maxSafeRunIDChars-1))

// Exist says what a writer does with a stream that is there.
type Exist string

// The ways with an existing stream. A new stream is made by each of them.
const (
	Replace Exist = "replace" // the old stream moves to events.jsonl.prev, and what has that name to the next free events.jsonl.prev-N
	Fail    Exist = "fail"
	Resume  Exist = "resume" // a torn stream goes on with a run_resume; its fragment is kept beside it
)

// Errors that opening a writer returns, wrapped with the path.
var (
	ErrExists    = errors.New("the stream exists")
	ErrDamaged   = errors.New("the stream is damaged")
	ErrProfile   = errors.New("the stream is not of the profile of the writer")
	ErrLocked    = errors.New("another writer holds the stream")
	ErrIrregular = errors.New("the path must name a regular file, not a directory, pipe or device")
)

// Errors that Write returns, wrapped with the path. An error that wraps none of them, nor ErrRefused, has closed the
// writer for good.
var (
	ErrClosed     = errors.New("the writer is closed")
	ErrDropped    = errors.New("the record was dropped, later ones may fit")
	ErrNotDurable = errors.New("the record is written, but may not survive a power loss")
)

// Writer appends records to one stream: one write for each record with its LF. It may be shared by goroutines.
type Writer struct {
	mutex      sync.Mutex
	stream     *streamFile
	profile    Profile
	start      time.Time
	sequence   Sequence
	now        func() time.Time
	dropped    int
	unreported int   // of the dropped records, those that no note in the stream speaks of
	cause      error // why the last of them was dropped
	replaces   bool  // a run, whose other ranks move with the first record
}

// Open opens a toy/v1 stream in a directory, which it makes.
func Open(directory string, exist Exist) (*Writer, error) {
	return open(filepath.Join(directory, profileTables[Toy].file), Toy, exist)
}

// Append opens a metrics/v1 or kaun/v1 stream and goes on at its end.
func Append(path string, profile Profile) (*Writer, error) {
	if _, known := profileTables[profile]; !known || profile == Toy {
		return nil, fmt.Errorf("%s: %w: %q cannot be appended to", path, ErrProfile, profile)
	}
	return open(path, profile, Resume)
}

func open(path string, profile Profile, exist Exist) (*Writer, error) {
	removeDirectories, err := makeDirectories(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	openStream := openLocked
	if exist == Replace {
		openStream = openReplacing
	}
	stream, err := openStream(path)
	if err != nil {
		removeDirectories()
		return nil, err
	}
	w := &Writer{stream: newStreamFile(stream.file, path), profile: profile, start: time.Now(), now: time.Now}
	w.replaces = stream.restore != nil && profile == Toy && filepath.Base(path) == RankFile(0)
	w.stream.abandon = func() error {
		defer removeDirectories()
		return stream.undo()
	}
	if exist == Fail && !stream.created {
		// An empty file too: its creator may be about to write to it.
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrExists), w.Close())
	}
	if err := w.reopen(exist); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), w.Close())
	}
	return w, nil
}

// reopen learns where the stream ends, or says why it cannot be written to.
func (w *Writer) reopen(exist Exist) error {
	info, err := w.stream.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if exist != Resume {
		return ErrExists
	}
	report, err := read(io.NewSectionReader(w.stream.file, 0, info.Size()), Options{Mode: Salvage, Name: w.stream.path}, filepath.Dir(w.stream.path),
		func(record Record) error {
			w.sequence.Note(record.Value)
			return nil
		})
	switch {
	case err != nil:
		return err
	case report.State == Damaged:
		return ErrDamaged
	case report.Profile != w.profile && report.Records > 0:
		return ErrProfile
	}
	w.sequence.awaitResume()
	// t goes on from the last t in the stream.
	w.start = w.now().Add(-time.Duration(w.sequence.last * float64(time.Second)))
	w.stream.fragment = report.Fragment
	return nil
}

// Write appends a record. A toy/v1 record without t gets the seconds since the start, a run_start without schema gets it;
// a kaun/v1 scalar without wall_time gets the current time.
// After an error that wraps ErrRefused or ErrDropped the record is not in the stream, and the next one may be written.
func (w *Writer) Write(record map[string]any) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.stream.file == nil || w.sequence.ended {
		return w.stream.closedError()
	}
	ends := w.profile == Toy && record["kind"] == "run_end"
	if ends || time.Since(w.stream.looked) >= lookInterval {
		w.stream.look()
	}
	if ends {
		w.noteDropped()
	}
	if err := w.write(record); err != nil {
		return err
	}
	if w.profile != Toy {
		return nil
	}
	if !ends {
		w.noteDropped()
	}
	if ends || record["kind"] == "run_start" {
		return w.stream.force()
	}
	return nil
}

// write admits, encodes and appends one record.
func (w *Writer) write(record map[string]any) error {
	line, record, err := w.lineOf(record)
	if err != nil {
		return fmt.Errorf("%s: %w", w.stream.path, err)
	}
	// Not before a record is about to follow: a start that is refused leaves the stream as it was.
	if err := w.stream.moveFragment(); err != nil {
		return fmt.Errorf("%s: the bytes after the last record could not be moved to a side file: %w", w.stream.path, err)
	}
	if err := w.stream.append(line); err != nil {
		if errors.Is(err, ErrDropped) {
			w.dropped++
			w.unreported++
			w.cause = err
			if system := (*fs.PathError)(nil); errors.As(err, &system) {
				w.cause = system.Err
			}
		}
		return err
	}
	w.stream.abandon = nil
	if w.replaces {
		w.replaces = false
		moveRanks(filepath.Dir(w.stream.path))
	}
	if w.profile == Toy {
		w.sequence.Note(record)
	}
	return nil
}

func (w *Writer) lineOf(record map[string]any) ([]byte, map[string]any, error) {
	record = w.completed(record)
	if w.profile == Toy {
		var err error
		if record, err = w.sequence.Admit(record); err != nil {
			return nil, nil, err
		}
		if err := refuseOutside(record); err != nil {
			return nil, nil, err
		}
		if id, isText := record["run_id"].(string); isText && record["kind"] == "run_start" && !safeRunID.MatchString(id) {
			return nil, nil, fmt.Errorf("%w: run id %q is not allowed: use 1 to %d letters, digits, '.', '_' and '-', with a letter or digit first", ErrRefused, id, maxSafeRunIDChars)
		}
	}
	line, err := Encode(w.profile, record)
	return line, record, err
}

// noteDropped writes how many records were dropped, once there is room for it again.
func (w *Writer) noteDropped() {
	if w.unreported == 0 || w.profile != Toy || w.stream.file == nil {
		return
	}
	text := fmt.Sprintf("%d records before this one were dropped: %v", w.unreported, w.cause)
	line, note, err := w.lineOf(map[string]any{"kind": "note", "text": text})
	if err != nil || w.stream.append(line) != nil {
		return
	}
	w.sequence.Note(note)
	w.unreported = 0
}

// completed returns the record with what it lacks: in toy/v1 its t, the seconds since the start, and the schema of a
// run_start; in kaun/v1 the wall_time of a scalar, the seconds since the Unix epoch.
func (w *Writer) completed(record map[string]any) map[string]any {
	with := make(map[string]any, len(record)+2)
	for key, value := range record {
		with[key] = value
	}
	if w.profile == Toy && with["t"] == nil {
		with["t"] = w.now().Sub(w.start).Seconds()
	}
	if _, declared := with["schema"]; w.profile == Toy && !declared && with["kind"] == "run_start" {
		with["schema"] = string(Toy)
	}
	if _, timed := with["wall_time"]; w.profile == Kaun && !timed && with["type"] == "scalar" {
		with["wall_time"] = float64(w.now().UnixMicro()) / 1e6
	}
	return with
}

// End writes run_end with a reason, the error that it is for, "" where there is none, and the number and loss of the last
// train step; then it releases the stream. A run that has not begun, or has ended, is closed unchanged.
func (w *Writer) End(reason, message string) error {
	w.mutex.Lock()
	record := w.sequence.runEnd(reason, message)
	w.mutex.Unlock()
	var err error
	if w.profile == Toy && record != nil {
		err = w.Write(record)
	}
	return errors.Join(err, w.Close())
}

// Dropped returns how many records were not written because the system had no room for them.
func (w *Writer) Dropped() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.dropped
}

// Close releases the stream. A run that has not written run_end stays torn. A writer that has written nothing leaves
// everything as it was before it was opened.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.stream.file == nil {
		return nil
	}
	err := errors.Join(w.stream.undo(), w.stream.file.Close())
	w.stream.file = nil
	return err
}
