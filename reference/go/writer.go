package toyspec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Exist says what a writer does with a stream that is there.
type Exist string

// The ways with an existing stream. A new stream is made by each of them.
const (
	Replace Exist = "replace" // the old stream moves to events.jsonl.prev
	Fail    Exist = "fail"
	Resume  Exist = "resume" // a torn stream goes on; its fragment is kept beside it
)

// Errors that opening a writer returns, wrapped with the path.
var (
	ErrExists   = errors.New("the stream exists")
	ErrComplete = errors.New("the stream is complete")
	ErrDamaged  = errors.New("the stream is damaged")
	ErrLocked   = errors.New("another writer holds the stream")
	ErrClosed   = errors.New("the writer is closed")
)

// Writer appends records to one stream: one write for each record with its LF. It may be shared by goroutines.
type Writer struct {
	mutex     sync.Mutex
	file      *os.File
	path      string
	profile   Profile
	committed int64
	start     time.Time
	sequence  Sequence
	now       func() time.Time
}

// Open opens a toy/v1 stream in a directory, which it makes.
func Open(directory string, exist Exist) (*Writer, error) {
	path := filepath.Join(directory, profileTables[Toy].file)
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return nil, err
	}
	if exist == Replace {
		if err := moveAside(path); err != nil {
			return nil, err
		}
	}
	return open(path, Toy, exist)
}

// Append opens a metrics/v1 or kaun/v1 stream and goes on at its end.
func Append(path string, profile Profile) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return open(path, profile, Resume)
}

func open(path string, profile Profile, exist Exist) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, path: path, profile: profile, start: time.Now(), now: time.Now}
	if err := w.takeOver(exist); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// takeOver locks the stream and brings it to a line end, or says why it cannot be written to.
func (w *Writer) takeOver(exist Exist) error {
	if err := lock(w.file); err != nil {
		return ErrLocked
	}
	info, err := w.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if exist != Resume {
		return ErrExists
	}
	report, err := Read(w.file, Options{Mode: Salvage, Profile: w.profile}, func(record Record) error {
		w.sequence.Note(record.Value)
		return nil
	})
	if err != nil {
		return err
	}
	if report.State == Damaged {
		return ErrDamaged
	}
	if report.State == Complete && w.profile == Toy {
		return ErrComplete
	}
	w.committed = report.Size - report.Fragment
	// t goes on from the last t in the stream.
	w.start = w.now().Add(-time.Duration(w.sequence.last * float64(time.Second)))
	if report.Fragment == 0 {
		return nil
	}
	return w.setAside(report.Fragment)
}

// setAside keeps the fragment in a file beside the stream and cuts the stream after its last LF.
func (w *Writer) setAside(length int64) error {
	fragment := make([]byte, length)
	if _, err := w.file.ReadAt(fragment, w.committed); err != nil {
		return err
	}
	aside, err := os.OpenFile(fmt.Sprintf("%s.torn-%d", w.path, w.committed), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = aside.Write(fragment)
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return err
	}
	return w.file.Truncate(w.committed)
}

// moveAside renames a stream that no writer holds, if there is one.
func moveAside(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if err := lock(file); err != nil {
		return fmt.Errorf("%s: %w", path, ErrLocked)
	}
	if info, err := file.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	return os.Rename(path, path+".prev")
}

// Write appends a record. A toy/v1 record without t gets the seconds since the start. An error that wraps ErrRefused
// leaves the stream as it was; after any other error that cannot be undone, the writer is closed for good.
func (w *Writer) Write(record map[string]any) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.file == nil || w.sequence.ended {
		return ErrClosed
	}
	toy := w.profile == Toy
	if toy {
		var err error
		if record, err = w.sequence.Admit(w.timed(record)); err != nil {
			return err
		}
	}
	line, err := Encode(w.profile, record)
	if err != nil {
		return err
	}
	if err := w.append(line); err != nil {
		return err
	}
	if !toy {
		return nil
	}
	w.sequence.Note(record)
	if record["kind"] == "run_start" || w.sequence.ended {
		return errors.Join(w.file.Sync(), syncDirectory(filepath.Dir(w.path)))
	}
	return nil
}

// timed returns the record with its t: the seconds since the start, where it has none.
func (w *Writer) timed(record map[string]any) map[string]any {
	if record["t"] != nil {
		return record
	}
	with := make(map[string]any, len(record)+1)
	for key, value := range record {
		with[key] = value
	}
	with["t"] = w.now().Sub(w.start).Seconds()
	return with
}

// append writes a whole line, or takes back what was written of it.
func (w *Writer) append(line []byte) error {
	written, err := w.file.Write(line)
	if err == nil {
		w.committed += int64(written)
		return nil
	}
	if written > 0 {
		if undone := w.file.Truncate(w.committed); undone != nil {
			err = errors.Join(err, undone, w.file.Close())
			w.file = nil
		}
	}
	return err
}

// Close lets go of the stream. A run that has not written run_end stays torn.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
