package toyspec

import (
	"fmt"
	"math/big"
	"slices"
)

// Sequence holds the rules between the records of a toy/v1 stream: run_start first and once, nothing after
// run_end, t and the steps of a phase never back. The zero value is that of an empty stream.
type Sequence struct {
	started, ended bool
	resumes        bool // a run_resume has to come next
	phase          string
	last           float64 // the t of the last record of a known kind that has a valid one
	bases          map[string]*big.Int
	trained        map[string]any // final_step and final_loss as the last step of phase train has them
}

// Admit returns the record to be written, its t not smaller than the one before, or an error that wraps ErrRefused.
// What is wrong with the record by itself is for Encode to say.
func (s *Sequence) Admit(record map[string]any) (map[string]any, error) {
	kind, _ := record["kind"].(string)
	switch {
	case s.ended && kind != "run_resume":
		return nil, fmt.Errorf("%w: the run has ended; it goes on with run_resume", ErrRefused)
	case !s.started && kind != "run_start":
		return nil, fmt.Errorf("%w: the first record is a run_start", ErrRefused)
	case s.started && kind == "run_start":
		return nil, fmt.Errorf("%w: the run has started", ErrRefused)
	case s.resumes && kind != "run_resume":
		return nil, fmt.Errorf("%w: the first record after resuming must be run_resume", ErrRefused)
	}
	if base := s.bases[s.phaseOf(record)]; kind == "step" && base != nil {
		if step := integer(record["step"]); step != nil && step.Cmp(base) <= 0 {
			return nil, fmt.Errorf("%w: step %s after step %s; write run_resume first", ErrRefused, step, base)
		}
	}
	if t, ok := timeOf(record); ok && t < s.last {
		with := make(map[string]any, len(record))
		for key, value := range record {
			with[key] = value
		}
		with["t"] = s.last
		return with, nil
	}
	return record, nil
}

// awaitResume lets only run_resume come next, unless the stream has no record to go on from. A run may go on after its end.
func (s *Sequence) awaitResume() { s.resumes, s.ended = s.started, false }

// Note takes in a record that is in the stream.
func (s *Sequence) Note(record map[string]any) {
	if t, ok := timeOf(record); ok && t >= 0 {
		s.last = t
	}
	switch record["kind"] {
	case "run_start":
		if !s.started {
			s.phase = phaseIn(record)
		}
	case "run_end":
		s.ended = true
	case "run_resume":
		s.resumes, s.ended = false, false
		s.bases = map[string]*big.Int{}
		if from := integer(record["from_step"]); from != nil {
			s.bases["train"] = from
		}
	case "step":
		s.noteStep(record)
	}
	s.started = true
}

// timeOf returns the t of a record of a known kind: that of any other takes part in nothing.
func timeOf(record map[string]any) (float64, bool) {
	if Toy.fieldsOf(record) == nil {
		return 0, false
	}
	return floatValue(record["t"])
}

func (s *Sequence) noteStep(record map[string]any) {
	step, phase := integer(record["step"]), s.phaseOf(record)
	if step == nil {
		return
	}
	if s.bases == nil {
		s.bases = map[string]*big.Int{}
	}
	s.bases[phase] = step
	if phase != "train" || step.Sign() < 0 {
		return
	}
	s.trained = map[string]any{"final_step": step}
	loss, ok := record["loss"]
	if _, isNumber := floatValue(loss); isNumber || ok && loss == nil {
		s.trained["final_loss"] = loss
	}
}

// runEnd returns the run_end that the stream needs, nil where none can come next.
func (s *Sequence) runEnd(reason, message string) map[string]any {
	if !s.started || s.ended || s.resumes {
		return nil
	}
	record := map[string]any{"kind": "run_end", "reason": reason}
	if message != "" {
		record["error"] = message
	}
	for key, value := range s.trained {
		record[key] = value
	}
	return record
}

func (s *Sequence) phaseOf(record map[string]any) string {
	if phase := phaseIn(record); phase != "" {
		return phase
	}
	if s.phase != "" {
		return s.phase
	}
	return "train"
}

// phaseIn returns the phase that a record names, "" where it names none that is valid.
func phaseIn(record map[string]any) string {
	phase, _ := record["phase"].(string)
	if declared := member(profileTables[Toy].kinds["step"], "phase"); !slices.Contains(declared.values, phase) {
		return ""
	}
	return phase
}

func integer(value any) *big.Int {
	text, ok := integerText(value)
	if !ok {
		return nil
	}
	number, _ := new(big.Int).SetString(text, 10)
	return number
}
