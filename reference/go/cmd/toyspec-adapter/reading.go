package main

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"path/filepath"

	toyspec "git.example.org/toyspec/toyspec/reference/go"
)

func optionsOf(asked request) toyspec.Options {
	return toyspec.Options{Mode: toyspec.Mode(asked.Mode), Profile: toyspec.Profile(asked.Profile), Name: asked.Name, MaxLineBytes: asked.MaxLineBytes}
}

// profileValue is how the protocol names a profile: null where there is none.
func profileValue(profile toyspec.Profile) any {
	if profile == toyspec.None {
		return nil
	}
	return profile
}

func readerAnswer(asked request) answer {
	records := []any{}
	take := func(record toyspec.Record) error {
		records = append(records, tagRecord(record.Profile, record.Value))
		return nil
	}
	var report toyspec.Report
	var err error
	if asked.Directory != "" {
		report, err = toyspec.ReadFile(filepath.Join(asked.Directory, asked.Name), optionsOf(asked), take)
	} else {
		report, err = toyspec.Read(bytes.NewReader(asked.Stream), optionsOf(asked), take)
	}
	var refused *toyspec.StreamError
	if err != nil && !errors.As(err, &refused) {
		return answer{"error": err.Error()}
	}
	gaps := []answer{}
	for _, gap := range report.Gaps {
		gaps = append(gaps, answer{"offset": gap.Offset, "length": gap.Length, "reason": gap.Reason})
	}
	reply := answer{"outcome": "read", "profile": profileValue(report.Profile), "state": report.State, "records": records,
		"count": report.Records, "committed": report.Committed, "fragment": report.Fragment, "gap_bytes": report.GapBytes, "gaps": gaps}
	if asked.Directory != "" && asked.Name == "" {
		ranks, err := toyspec.Ranks(asked.Directory)
		if err != nil {
			return answer{"error": err.Error()}
		}
		reply["ranks"] = ranks
	}
	if refused != nil {
		reply["outcome"] = "fails"
		if report.GapBytes > 0 {
			reply["error"] = answer{"line": refused.Line, "offset": refused.Offset, "reason": refused.Reason}
		}
	}
	return reply
}

func summaryAnswer(asked request) answer {
	var summary toyspec.Summary
	var err error
	if asked.Directory != "" {
		summary, err = toyspec.SummarizeFile(asked.Directory, optionsOf(asked))
	} else {
		summary, err = toyspec.Summarize(bytes.NewReader(asked.Stream), optionsOf(asked))
	}
	if err != nil {
		return answer{"error": err.Error()}
	}
	return answer{"profile": profileValue(summary.Profile), "state": summary.State, "summary": viewsOf(summary)}
}

// viewsOf returns the views of a run in the tagged form of the protocol, without those that have no value.
func viewsOf(summary toyspec.Summary) any {
	views := map[string]any{}
	if summary.RunID != nil {
		views["run_id"] = *summary.RunID
	}
	put := func(name string, number *float64, tag func(float64) any) {
		if number != nil {
			views[name] = tag(*number)
		}
	}
	put("duration_seconds", summary.DurationSeconds, tagFloat)
	switch summary.Profile {
	case toyspec.Toy:
		views["phase"] = summary.Phase
		if summary.Ranks != nil {
			views["ranks"] = ranksOf(summary.Ranks)
		}
		if summary.FirstStopped != nil {
			views["first_stopped"] = tagInteger(big.NewInt(int64(*summary.FirstStopped)))
		}
		if summary.Reason != nil {
			views["reason"] = *summary.Reason
		}
		putLosses(views, summary, tagFloat)
	case toyspec.Metrics:
		putLosses(views, summary, tagBinary32)
		put("loss_min", summary.LossMin, tagBinary32)
		put("loss_mean", summary.LossMean, tagBinary32)
		put("loss_max", summary.LossMax, tagBinary32)
		views["non_finite"] = tagInteger(big.NewInt(int64(summary.NonFinite)))
	case toyspec.Kaun:
		tags := map[string]any{}
		for name, tag := range summary.Tags {
			tags[name] = tagOf(tag)
		}
		views["tags"] = wrapped(tags)
	}
	return views
}

func ranksOf(ranks []toyspec.Rank) []any {
	views := []any{}
	for _, rank := range ranks {
		view := map[string]any{"rank": tagInteger(big.NewInt(int64(rank.Rank))), "state": rank.State, "steps": tagInteger(big.NewInt(int64(rank.Steps)))}
		if rank.LastStep != nil {
			view["last_step"] = tagInteger(rank.LastStep)
		}
		if rank.Reason != nil {
			view["reason"] = *rank.Reason
		}
		views = append(views, view)
	}
	return views
}

func putLosses(views map[string]any, summary toyspec.Summary, tag func(float64) any) {
	views["steps"] = tagInteger(big.NewInt(int64(summary.Steps)))
	if summary.LastStep != nil {
		views["last_step"] = tagInteger(summary.LastStep)
	}
	curve := []any{}
	for _, loss := range summary.LossCurve {
		curve = append(curve, tag(loss))
	}
	views["loss_curve"] = curve
	if summary.FinalLoss != nil {
		views["final_loss"] = tag(*summary.FinalLoss)
	}
}

func tagOf(tag *toyspec.Tag) any {
	views := map[string]any{"count": tagInteger(big.NewInt(int64(tag.Count))), "latest": pointOf(tag.Latest)}
	if tag.Best != nil {
		views["best"] = pointOf(*tag.Best)
	}
	return views
}

func pointOf(point toyspec.Point) any {
	views := map[string]any{"step": tagInteger(point.Step), "value": tagFloat(point.Value)}
	if point.Epoch != nil {
		views["epoch"] = tagInteger(point.Epoch)
	}
	return views
}

func tagInteger(number *big.Int) any { return map[string]string{"int": number.String()} }

func tagFloat(number float64) any {
	if math.IsNaN(number) {
		return nil
	}
	return map[string]string{"float": toyspec.Binary64Text(number)}
}

func tagBinary32(number float64) any {
	if math.IsNaN(number) {
		return nil
	}
	return map[string]string{"f32": toyspec.Binary32Text(float32(number))}
}
