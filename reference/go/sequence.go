package toyspec

import (
	"fmt"
	"math/big"
)

// Sequence holds a toy/v1 stream to what its records owe to each other: run_start first and once, nothing behind
// run_end, t and the steps of a phase never back. The zero value is that of an empty stream.
type Sequence struct {
	started, ended bool
	phase          string
	last           float64 // the t of the last record
	bases          map[string]*big.Int
}

// Admit returns the record to be written, its t not smaller than the one before, or an error that wraps ErrRefused.
// What is wrong with the record by itself is for Encode to say.
func (s *Sequence) Admit(record map[string]any) (map[string]any, error) {
	kind, _ := record["kind"].(string)
	switch {
	case s.ended:
		return nil, fmt.Errorf("%w: the run has ended", ErrRefused)
	case !s.started && kind != "run_start":
		return nil, fmt.Errorf("%w: the first record is a run_start", ErrRefused)
	case s.started && kind == "run_start":
		return nil, fmt.Errorf("%w: the run has started", ErrRefused)
	}
	if base := s.bases[s.phaseOf(record)]; kind == "step" && base != nil {
		if step := integer(record["step"]); step != nil && step.Cmp(base) <= 0 {
			return nil, fmt.Errorf("%w: step %s after step %s; write run_resume first", ErrRefused, step, base)
		}
	}
	if t, ok := floatValue(record["t"]); ok && t < s.last {
		with := make(map[string]any, len(record))
		for key, value := range record {
			with[key] = value
		}
		with["t"] = s.last
		return with, nil
	}
	return record, nil
}

// Note takes in a record that is in the stream.
func (s *Sequence) Note(record map[string]any) {
	if t, ok := floatValue(record["t"]); ok {
		s.last = max(s.last, t)
	}
	switch record["kind"] {
	case "run_start":
		if !s.started {
			s.phase, _ = record["phase"].(string)
		}
	case "run_end":
		s.ended = true
	case "run_resume":
		s.bases = map[string]*big.Int{}
		if from := integer(record["from_step"]); from != nil {
			s.bases["train"] = from
		}
	case "step":
		if step := integer(record["step"]); step != nil {
			if s.bases == nil {
				s.bases = map[string]*big.Int{}
			}
			s.bases[s.phaseOf(record)] = step
		}
	}
	s.started = true
}

func (s *Sequence) phaseOf(record map[string]any) string {
	if phase, ok := record["phase"].(string); ok {
		return phase
	}
	if s.phase != "" {
		return s.phase
	}
	return "train"
}

func integer(value any) *big.Int {
	text, ok := integerText(value)
	if !ok {
		return nil
	}
	number, _ := new(big.Int).SetString(text, 10)
	return number
}
