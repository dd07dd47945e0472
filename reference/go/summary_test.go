package toyspec

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func summaryOf(t *testing.T, lines ...string) Summary {
	t.Helper()
	summary, err := Summarize(strings.NewReader(strings.Join(lines, "\n")+"\n"), Options{})
	must(t, err)
	return summary
}

// shown returns the value that a pointer refers to, or "none".
func shown[T any](pointer *T) string {
	if pointer == nil {
		return "none"
	}
	return fmt.Sprint(*pointer)
}

// words joins the texts of values by spaces.
func words(values ...any) string { return strings.TrimSpace(fmt.Sprintln(values...)) }

func step(number, loss string) string {
	return `{"kind":"step","t":` + number + `,"step":` + number + `,"loss":` + loss + `}`
}

func TestViewsOfARunAreThoseOfItsLatestAttempt(t *testing.T) {
	s := summaryOf(t, strings.TrimSpace(start), step("1", "3.5"), "{", step("2", "3.25"), `{"kind":"eval","t":2.5,"step":2,"name":"held-out","phase":"eval"}`,
		`{"kind":"run_resume","t":3.0,"from_step":1}`, step("4.0", "null"), `{"kind":"step","t":5,"step":5,"loss":"x"}`,
		`{"kind":"step","step":6,"loss":9}`, `{"kind":"step","t":7,"step":1,"phase":"decode","loss":9}`, `{"kind":"run_end","t":-1,"reason":"completed"}`)
	got := words(shown(s.RunID), s.Phase, s.Steps, s.LastStep, s.LossCurve, shown(s.FinalLoss), shown(s.DurationSeconds), shown(s.Reason), s.State)
	if want := "run train 3 5 [3.5 NaN] NaN 7 completed damaged"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPhaseOfTheRunHoldsForEveryEvent(t *testing.T) {
	s := summaryOf(t, step("1", "1"), `{"kind":"run_start","phase":"eval"}`, step("2", "2"), `{"kind":"step","t":3,"step":3,"phase":"train","loss":3}`)
	if s.Phase != "eval" || s.Steps != 2 {
		t.Errorf("%+v", s)
	}
}

func TestViewsWithoutAValueAreAbsent(t *testing.T) {
	s := summaryOf(t, `{"kind":"run_start"}`, `{"kind":"note","t":"x"}`)
	if s.RunID != nil || s.LastStep != nil || s.FinalLoss != nil || s.DurationSeconds != nil || s.Reason != nil || s.Phase != "train" {
		t.Errorf("%+v", s)
	}
}

func TestFinalLossIsThatOfTheLastEndWhereItIsValid(t *testing.T) {
	for final, want := range map[string]string{`"final_loss":1.5`: "1.5", `"final_loss":null`: "NaN", `"final_loss":"x"`: "2.5", `"own":1`: "2.5"} {
		s := summaryOf(t, strings.TrimSpace(start), step("1", "2.5"), `{"kind":"run_end","t":2,"reason":"aborted",`+final+`}`)
		if shown(s.FinalLoss) != want {
			t.Errorf("%s gives %s", final, shown(s.FinalLoss))
		}
	}
}

func entry(step, loss string) string {
	return `{"step":` + step + `,"wall_time_ms":1500,"loss":` + loss + `,"grad_norm":null,"throughput_samples_per_sec":1}`
}

func TestViewsOfALog(t *testing.T) {
	s := summaryOf(t, entry("1", "0.1"), entry("2", "null"), entry("3", "0.3"), entry("4", "1e39"), entry("5.0", "7"))
	got := words(s.Steps, s.LastStep, float32(s.LossCurve[0]), shown(s.FinalLoss), shown(s.DurationSeconds), float32(*s.LossMin), float32(*s.LossMean), float32(*s.LossMax), s.NonFinite)
	if want := "3 3 0.1 0.30000001192092896 1.5 0.1 0.2 0.3 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s := summaryOf(t, entry("1", "null")); s.LossMean != nil || s.LossMin != nil || !math.IsNaN(*s.FinalLoss) {
		t.Errorf("%+v", s)
	}
}

func scalar(members string) string { return `{"type":"scalar",` + members + `}` }

func TestViewsOfScalars(t *testing.T) {
	s := summaryOf(t, scalar(`"tag":"val_Loss","step":1,"value":3`), scalar(`"tag":"val_Loss","step":2.5,"value":1,"epoch":1`),
		scalar(`"tag":"val_Loss","step":2,"value":2,"epoch":1`), scalar(`"tag":"val_Loss","step":2,"value":null,"epoch":1.5`),
		scalar(`"tag":"val_Loss","step":"9","value":0`), scalar(`"tag":"acc","step":1,"value":1,"minimize":true`), scalar(`"tag":"acc","step":0,"value":2,"minimize":"x"`),
		scalar(`"tag":"none","step":1,"value":null`))
	loss, accuracy := s.Tags["val_Loss"], s.Tags["acc"]
	got := words(loss.Count, loss.Latest.Step, loss.Latest.Epoch, loss.Latest.Value, loss.Best.Value, accuracy.Count, accuracy.Latest.Value, accuracy.Best.Value)
	if want := "4 2 1 1 1 2 1 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if none := s.Tags["none"]; none.Best != nil || !math.IsNaN(none.Latest.Value) {
		t.Errorf("%+v", none)
	}
}

func TestRunIDOfABundleIsThatOfItsManifest(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "named")
	must(t, os.Mkdir(directory, 0o777))
	must(t, os.WriteFile(filepath.Join(directory, "events.jsonl"), []byte(scalar(`"tag":"a","step":1,"value":1`)+"\n"), 0o666))
	for manifest, want := range map[string]string{`{"run_id":"a"}`: "a", `{"run_id":3}`: "named", `{`: "named"} {
		must(t, os.WriteFile(filepath.Join(directory, "run.json"), []byte(manifest), 0o666))
		s, err := SummarizeFile(directory, Options{})
		if err != nil || shown(s.RunID) != want {
			t.Errorf("%s gives %s, %v", manifest, shown(s.RunID), err)
		}
	}
}
