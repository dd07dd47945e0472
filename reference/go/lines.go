package toyspec

import (
	"bufio"
	"io"
)

type splitLine struct {
	data   []byte // the bytes before the LF; nil where there are more than the limit
	offset int64
	length int64
}

type lineSplitter struct {
	reader *bufio.Reader
	limit  int
	offset int64
}

func newLineSplitter(source io.Reader, limit int) *lineSplitter {
	return &lineSplitter{reader: bufio.NewReaderSize(source, 1<<16), limit: limit}
}

// next returns the next committed line; with io.EOF, the length of the bytes after the last LF.
func (l *lineSplitter) next() (splitLine, error) {
	line := splitLine{data: []byte{}, offset: l.offset}
	for {
		piece, err := l.reader.ReadSlice('\n')
		line.length += int64(len(piece))
		if err == nil {
			line.length--
			piece = piece[:len(piece)-1]
		}
		if line.data != nil {
			if line.length > int64(l.limit) {
				line.data = nil
			} else {
				line.data = append(line.data, piece...)
			}
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil {
			l.offset += line.length + 1
		}
		return line, err
	}
}
