package toyspec

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// validateLine returns the first rule that makes a line unreadable, "" for a readable one. The line is not blank and
// within the limit of length; first says that it begins the stream. A repeated key leaves a line readable.
func validateLine(line []byte, first bool) string {
	if first && bytes.HasPrefix(line, []byte{0xEF, 0xBB, 0xBF}) {
		return "byte-order-mark"
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return "nul-bytes"
	}
	if !utf8.Valid(line) {
		return "invalid-utf8"
	}
	s := scanner{data: line}
	s.space()
	object := s.peek() == '{'
	if s.scan(); s.stop != "" {
		return s.stop
	}
	if !object {
		return "not-an-object"
	}
	return s.problem
}

// isBlank reports whether a line holds nothing but JSON white space.
func isBlank(line []byte) bool {
	return len(bytes.TrimLeft(line, " \t\r")) == 0
}

// scanner goes over one JSON text from the left, without recursion. It follows RFC 8259, except that it takes NaN
// and infinities as numbers and half a surrogate pair as an escape, and notes the first of them as a problem.
type scanner struct {
	data    []byte
	at      int
	stop    string // invalid-json or nested-too-deep
	problem string // non-finite-number or lone-surrogate
}

func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0 // no NUL is in the text
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) fail() {
	if s.stop == "" {
		s.stop = "invalid-json"
	}
}

func (s *scanner) note(rule string) {
	if s.problem == "" {
		s.problem = rule
	}
}

// scan goes over the whole text.
func (s *scanner) scan() {
	open := make([]byte, 0, MaxDepth) // the brackets that are open
	fresh := false                    // a bracket was just opened
	for {
		if s.stop != "" {
			return
		}
		// A value, or the end of an empty object or array.
		s.space()
		if c := s.peek(); fresh && (c == ']' && open[len(open)-1] == '[' || c == '}' && open[len(open)-1] == '{') {
			s.at++
			open = open[:len(open)-1]
		} else {
			if len(open) > 0 && open[len(open)-1] == '{' {
				s.key()
				if s.stop != "" {
					return
				}
			}
			if c := s.peek(); c == '{' || c == '[' {
				if len(open) == MaxDepth {
					s.stop = "nested-too-deep"
					return
				}
				open = append(open, c)
				s.at++
				fresh = true
				continue
			}
			s.scalar()
		}
		fresh = false
		// What follows a value: ends of brackets, then a comma or the end of the text.
		for {
			if s.stop != "" {
				return
			}
			s.space()
			if len(open) == 0 {
				if s.at < len(s.data) {
					s.fail()
				}
				return
			}
			c := s.peek()
			if c == ',' {
				s.at++
				break
			}
			if c == ']' && open[len(open)-1] == '[' || c == '}' && open[len(open)-1] == '{' {
				s.at++
				open = open[:len(open)-1]
				continue
			}
			s.fail()
		}
	}
}

// key goes over a key and its colon, up to the value.
func (s *scanner) key() {
	s.space()
	if s.peek() != '"' {
		s.fail()
		return
	}
	s.text()
	s.space()
	if s.peek() != ':' {
		s.fail()
		return
	}
	s.at++
	s.space()
}

func (s *scanner) scalar() {
	switch c := s.peek(); {
	case c == '"':
		s.text()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	case c == 'N':
		s.word("NaN")
		s.note("non-finite-number")
	case c == 'I':
		s.word("Infinity")
		s.note("non-finite-number")
	case c == '-' && bytes.HasPrefix(s.data[s.at:], []byte("-I")):
		s.word("-Infinity")
		s.note("non-finite-number")
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	default:
		s.fail()
	}
}

func (s *scanner) word(word string) {
	if !bytes.HasPrefix(s.data[s.at:], []byte(word)) {
		s.fail()
		return
	}
	s.at += len(word)
}

func (s *scanner) number() {
	start := s.at
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.at++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		s.digits()
	}
	if s.stop != "" {
		return
	}
	// ParseFloat fails on text of this grammar only where the value overflows binary64.
	if _, err := strconv.ParseFloat(string(s.data[start:s.at]), 64); err != nil {
		s.note("non-finite-number")
	}
}

func (s *scanner) digits() {
	start := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	if s.at == start {
		s.fail()
	}
}

// text goes over a string and reports whether its escapes make whole characters.
func (s *scanner) text() {
	s.at++
	high := false // the escape before this place is the first half of a pair
	for {
		switch c := s.peek(); {
		case s.at >= len(s.data) || c < 0x20:
			s.fail()
			return
		case c == '\\' && s.at+1 < len(s.data) && s.data[s.at+1] == 'u':
			code, ok := s.hex()
			if !ok {
				s.fail()
				return
			}
			low := 0xDC00 <= code && code < 0xE000
			if high != low {
				s.note("lone-surrogate")
			}
			high = 0xD800 <= code && code < 0xDC00
			if high && low {
				high = false
			}
			s.at += 6
			continue
		default:
			if high {
				s.note("lone-surrogate")
				high = false
			}
			if c == '"' {
				s.at++
				return
			}
			if c == '\\' {
				s.at++
				if bytes.IndexByte([]byte(`"\/bfnrt`), s.peek()) < 0 {
					s.fail()
					return
				}
			}
			s.at++
		}
	}
}

// hex returns the code of the \uXXXX escape at this place.
func (s *scanner) hex() (uint64, bool) {
	if s.at+6 > len(s.data) {
		return 0, false
	}
	for _, c := range s.data[s.at+2 : s.at+6] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return 0, false
		}
	}
	code, err := strconv.ParseUint(string(s.data[s.at+2:s.at+6]), 16, 32)
	return code, err == nil
}
