package toyspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lookInterval is how often a writer looks, at most, whether its path still names its file.
const lookInterval = time.Second

// Warn is called with what a writer has to say that no returned error carries, one line at a time. Replace it before any
// writer is open; it may be called from several goroutines.
var Warn = func(message string) { fmt.Fprintln(os.Stderr, "toyspec: "+message) }

// streamFile is a file of lines that this process alone appends to.
type streamFile struct {
	file     *os.File // nil once it is closed
	path     string
	fragment int64 // length of the bytes after the last LF, which another writer has left
	why      error // why it was closed for good
	unsynced error // why a sync failed; it is never tried again, since the system may have dropped the data
	looked   time.Time
	reported bool         // that the path does not name the file any more
	abandon  func() error // undoes the opening, as long as nothing is written; then nil
}

// system has the calls that a test replaces to see what happens when they fail.
var system = struct {
	lock, syncFile func(*os.File) error
	syncDirectory  func(string) error
}{lock, syncFile, syncDirectory}

func newStreamFile(file *os.File, path string) *streamFile {
	return &streamFile{file: file, path: path, looked: time.Now()}
}

// append writes a whole line by one call, or takes back what was written of it. After an error that wraps ErrDropped a
// later line may fit; after any other the file is closed for good.
func (s *streamFile) append(line []byte) error {
	written, err := s.file.Write(line)
	if err == nil {
		return nil
	}
	if undone := s.takeBack(line[:written]); undone != nil {
		return s.giveUp(fmt.Errorf("%w; a part of the line could not be removed: %w", err, undone))
	}
	if !isOneOf(err, passing) {
		return s.giveUp(err)
	}
	return fmt.Errorf("%w: %w", ErrDropped, err)
}

// takeBack cuts the part of a line off the end of the file, if it is there: what another process has appended stays.
func (s *streamFile) takeBack(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	found := make([]byte, len(part))
	start := info.Size() - int64(len(part))
	if start >= 0 {
		if _, err := s.file.ReadAt(found, start); err != nil {
			return err
		}
	}
	if start < 0 || !bytes.Equal(found, part) {
		return errors.New("another process writes the file")
	}
	return s.file.Truncate(start)
}

// giveUp closes the file for good, and returns the error that reports it once. A start that failed leaves everything as it
// was.
func (s *streamFile) giveUp(err error) error {
	s.why = errors.Join(err, s.undo(), s.file.Close())
	s.file = nil
	return fmt.Errorf("%s: the writer is closed for good: %w", s.path, s.why)
}

// undo brings everything back to where it was before the opening, if nothing is written.
func (s *streamFile) undo() error {
	if s.abandon == nil {
		return nil
	}
	err := s.abandon()
	s.abandon = nil
	return err
}

// closedError says why nothing can be written.
func (s *streamFile) closedError() error {
	if s.why != nil {
		return fmt.Errorf("%s: %w for good: %w", s.path, ErrClosed, s.why)
	}
	return fmt.Errorf("%s: %w", s.path, ErrClosed)
}

// force syncs the file and its directory. Once that has failed, it fails for ever.
func (s *streamFile) force() error {
	if s.unsynced == nil {
		s.unsynced = errors.Join(system.syncFile(s.file), system.syncDirectory(filepath.Dir(s.path)))
	}
	if s.unsynced != nil {
		return fmt.Errorf("%s: %w: %w", s.path, ErrNotDurable, s.unsynced)
	}
	return nil
}

// moveFragment keeps the fragment in a file beside the stream, and cuts the stream after its last LF.
func (s *streamFile) moveFragment() error {
	if s.fragment == 0 {
		return nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	length, offset := s.fragment, info.Size()-s.fragment
	side, err := createFree(fmt.Sprintf("%s.torn-%d", s.path, offset))
	if err != nil {
		return err
	}
	copied, err := io.Copy(side, io.NewSectionReader(s.file, offset, length))
	if err == nil && copied != length {
		err = io.ErrUnexpectedEOF
	}
	err = errors.Join(err, system.syncFile(side), side.Close())
	if err == nil {
		err = system.syncDirectory(filepath.Dir(s.path))
	}
	if err == nil {
		err = s.file.Truncate(offset)
	}
	if err != nil {
		return errors.Join(err, os.Remove(side.Name()))
	}
	s.fragment = 0
	Warn(fmt.Sprintf("%s: moved %d bytes after the last record to %s", s.path, length, side.Name()))
	return system.syncFile(s.file)
}

// createFree creates the file at path; when there is one, at <path>-2, then -3, the first that is free.
func createFree(path string) (*os.File, error) {
	name := path
	for number := 2; ; number++ {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		name = fmt.Sprintf("%s-%d", path, number)
	}
}

// look finds out whether the path still names the file, and says once when it does not. The file is then started again
// at the path, with every byte that can still be read.
func (s *streamFile) look() {
	s.looked = time.Now()
	if isAt(s.path, s.file) {
		return
	}
	const what = "the file was deleted, renamed or replaced while it was open for writing"
	size, err := s.startAgain()
	if err != nil {
		s.say(fmt.Sprintf("%s: %s; it could not be started again, records go on to the old file: %v", s.path, what, err))
		return
	}
	Warn(fmt.Sprintf("%s: %s; it was started again with the %d bytes written so far", s.path, what, size))
	s.reported = false
}

func (s *streamFile) say(message string) {
	if !s.reported {
		Warn(message)
	}
	s.reported = true
}

// startAgain copies the file to its path, and goes on there.
func (s *streamFile) startAgain() (int64, error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o777); err != nil {
		return 0, err
	}
	fresh, err := openReplacing(s.path)
	if err != nil {
		return 0, err
	}
	info, err := s.file.Stat()
	if err == nil {
		_, err = io.Copy(fresh.file, io.NewSectionReader(s.file, 0, info.Size()))
	}
	if err == nil {
		err = errors.Join(system.syncFile(fresh.file), system.syncDirectory(filepath.Dir(s.path)))
	}
	if err != nil {
		return 0, errors.Join(err, fresh.file.Truncate(0), fresh.undo(), fresh.file.Close())
	}
	s.file.Close()
	s.file = fresh.file
	return info.Size(), nil
}
