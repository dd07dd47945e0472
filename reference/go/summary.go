package toyspec

import (
	"encoding/json"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Summary holds the views of a run, each one fact about the whole of it. A pointer is nil where the view has no value.
type Summary struct {
	Profile Profile
	State   State

	RunID    *string
	Steps    int      // step events of the run's own phase, or entries
	LastStep *big.Int // number of the last of them
	// LossCurve has the loss of each of them that has one. NaN stands for a loss that was not finite, here and below.
	LossCurve       []float64
	FinalLoss       *float64
	DurationSeconds *float64

	Phase  string  // toy/v1 only
	Reason *string // toy/v1 only: the reason of the last run_end, if no run_resume follows it

	Ranks        []Rank // toy/v1 only: of a bundle in which other ranks have streams, all ranks in order
	FirstStopped *int   // toy/v1 only: the rank that came less far than all others; nil where none did

	LossMin, LossMean, LossMax *float64 // metrics/v1 only
	NonFinite                  int      // metrics/v1 only

	Tags map[string]*Tag // kaun/v1 only
}

// Rank sums up the stream of one process of a run.
type Rank struct {
	Rank     int
	State    State
	Steps    int
	LastStep *big.Int // nil where it has no step
	Reason   *string
}

// Tag sums up the scalars of one tag.
type Tag struct {
	Count  int
	Latest Point
	Best   *Point // nil where no value is finite
}

// Point is one value of a metric.
type Point struct {
	Step  *big.Int
	Epoch *big.Int // nil where the scalar has none
	Value float64  // NaN where it was not finite
}

// SummarizeFile returns the views of the run at path, a stream or a bundle's directory. Unreadable lines and invalid records
// are left out.
func SummarizeFile(path string, options Options) (Summary, error) {
	stream, err := streamAt(path)
	if err != nil {
		return Summary{}, err
	}
	file, err := os.Open(stream)
	if err != nil {
		return Summary{}, err
	}
	defer file.Close()
	if options.Name == "" {
		options.Name = stream
	}
	summary, err := summarize(file, options, filepath.Dir(stream))
	if err == nil && stream != path && summary.Profile == Kaun {
		summary.RunID, err = bundleID(path)
	}
	if err == nil && stream != path && summary.Profile == Toy {
		err = summary.addRanks(path, options)
	}
	return summary, err
}

// addRanks adds the views of the ranks, if others than the first have a stream in the directory.
func (s *Summary) addRanks(directory string, options Options) error {
	others, err := Ranks(directory)
	if err != nil || len(others) == 0 {
		return err
	}
	s.Ranks = []Rank{{0, s.State, s.Steps, s.LastStep, s.Reason}}
	options.Profile = Toy
	for _, rank := range others {
		options.Name = RankFile(rank)
		found, err := SummarizeFile(filepath.Join(directory, options.Name), options)
		if err != nil {
			return err
		}
		s.Ranks = append(s.Ranks, Rank{rank, found.State, found.Steps, found.LastStep, found.Reason})
	}
	s.FirstStopped = firstStopped(s.Ranks)
	return nil
}

// firstStopped returns the rank that came least far; of several, the only one whose stream is not complete.
func firstStopped(ranks []Rank) *int {
	last := func(rank Rank) *big.Int {
		if rank.LastStep == nil {
			return big.NewInt(-1)
		}
		return rank.LastStep
	}
	lowest := slices.MinFunc(ranks, func(a, b Rank) int { return last(a).Cmp(last(b)) })
	left := slices.DeleteFunc(slices.Clone(ranks), func(rank Rank) bool { return last(rank).Cmp(last(lowest)) != 0 })
	if len(left) > 1 {
		left = slices.DeleteFunc(left, func(rank Rank) bool { return rank.State == Complete })
	}
	if len(left) != 1 {
		return nil
	}
	return &left[0].Rank
}

// Summarize is like SummarizeFile for a stream that comes from a reader.
func Summarize(source io.Reader, options Options) (Summary, error) {
	return summarize(source, options, "")
}

// bundleID returns the run_id of the manifest, and the name of the directory where that has no valid one.
func bundleID(directory string) (*string, error) {
	if id, ok := validText(readManifest(directory), "run_id", profileTables[Kaun].kinds["run"]); ok {
		return &id, nil
	}
	absolute, err := filepath.Abs(directory)
	name := filepath.Base(absolute)
	return &name, err
}

// view takes in the records of a stream one by one.
type view interface {
	take(record map[string]any)
	fill(summary *Summary)
}

func summarize(source io.Reader, options Options, beside string) (Summary, error) {
	options.Mode = Salvage
	views := map[Profile]view{Toy: &toyView{}, Metrics: &metricsView{}, Kaun: &kaunView{tags: map[string]*tagView{}}, None: noView{}}
	report, err := read(source, options, beside, func(record Record) error {
		views[record.Profile].take(record.Value)
		return nil
	})
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{Profile: report.Profile, State: report.State}
	views[report.Profile].fill(&summary)
	return summary, nil
}

type noView struct{}

func (noView) take(map[string]any) {}
func (noView) fill(*Summary)       {}

// valid returns a member of a record that its schema accepts; nil is a valid null.
func valid(record map[string]any, key string, fields []field) (any, bool) {
	value, ok := record[key]
	declared := member(fields, key)
	if !ok || declared == nil {
		return nil, false
	}
	// The encoder would write null for what overflows binary32.
	if number, isNumber := value.(json.Number); isNumber && declared.form == formBinary32 {
		if wide, _ := number.Float64(); math.Abs(wide) >= Binary32Limit {
			return nil, false
		}
	}
	e := encoder{}
	e.value(value, declared, 1)
	return value, e.err == nil
}

func validText(record map[string]any, key string, fields []field) (string, bool) {
	value, ok := valid(record, key, fields)
	text, isText := value.(string)
	return text, ok && isText
}

func validInteger(record map[string]any, key string, fields []field) *big.Int {
	if value, ok := valid(record, key, fields); ok {
		return integer(value)
	}
	return nil
}

// validNumber returns a number, NaN for null; nil where there is none that is valid.
func validNumber(record map[string]any, key string, fields []field) *float64 {
	value, ok := valid(record, key, fields)
	if !ok {
		return nil
	}
	number := math.NaN()
	if value != nil {
		number, _ = floatValue(value)
	}
	return &number
}

// toyEvent is what the views need of one event of a known kind.
type toyEvent struct {
	from   *big.Int // from_step of a run_resume
	step   *big.Int // of any other kind than run_start and run_end
	isStep bool     // it is a step event that counts
	phase  string   // its own, "" where it names none
	time   *float64
	loss   *float64
}

type toyView struct {
	events    []toyEvent
	started   bool
	runID     *string
	phase     string // of the first run_start, "" where that names none
	reason    *string
	finalLoss *float64
}

func (v *toyView) take(record map[string]any) {
	fields := Toy.fieldsOf(record)
	if fields == nil {
		return
	}
	event := toyEvent{time: validNumber(record, "t", fields), phase: phaseIn(record)}
	switch record["kind"] {
	case "run_start":
		v.takeStart(record, fields)
	case "run_resume":
		event.from = validInteger(record, "from_step", fields)
		v.reason, v.finalLoss = nil, nil // the run goes on after its end
	case "run_end":
		v.reason, v.finalLoss = nil, validNumber(record, "final_loss", fields)
		if reason, ok := validText(record, "reason", fields); ok {
			v.reason = &reason
		}
	default:
		event.step = validInteger(record, "step", fields)
		event.isStep = record["kind"] == "step"
		event.loss = validNumber(record, "loss", fields)
	}
	v.events = append(v.events, event)
}

func (v *toyView) takeStart(record map[string]any, fields []field) {
	if v.started {
		return
	}
	v.started, v.phase = true, phaseIn(record)
	if id, ok := validText(record, "run_id", fields); ok {
		v.runID = &id
	}
}

// latest returns the events of the latest attempt, each with its phase.
func (v *toyView) latest() []toyEvent {
	var limit *big.Int // the smallest from_step that follows
	kept := []toyEvent{}
	for i := len(v.events) - 1; i >= 0; i-- {
		event := v.events[i]
		if event.phase == "" {
			event.phase = v.phase
		}
		trains := event.phase == "train" || event.phase == "eval" && !event.isStep
		if limit == nil || event.step == nil || !trains || event.step.Cmp(limit) <= 0 {
			kept = append(kept, event)
		}
		if event.from != nil && (limit == nil || event.from.Cmp(limit) < 0) {
			limit = event.from
		}
	}
	slices.Reverse(kept)
	return kept
}

func (v *toyView) fill(summary *Summary) {
	if v.phase == "" {
		v.phase = "train"
	}
	summary.RunID, summary.Reason, summary.Phase = v.runID, v.reason, v.phase
	summary.LossCurve = []float64{}
	for _, event := range v.latest() {
		if event.time != nil {
			summary.DurationSeconds = event.time
		}
		if !event.isStep || event.step == nil || event.time == nil || event.phase != v.phase {
			continue
		}
		summary.Steps++
		summary.LastStep = event.step
		if event.loss != nil {
			summary.LossCurve = append(summary.LossCurve, *event.loss)
		}
	}
	summary.FinalLoss = v.finalLoss
	if count := len(summary.LossCurve); summary.FinalLoss == nil && count > 0 {
		summary.FinalLoss = &summary.LossCurve[count-1]
	}
}

type metricsView struct {
	summary Summary
	sum     float64
	finite  int
}

func (v *metricsView) take(record map[string]any) {
	fields := Metrics.fieldsOf(record)
	for i := range fields {
		if _, ok := valid(record, fields[i].name, fields); fields[i].required && !ok {
			return
		}
	}
	s := &v.summary
	s.Steps++
	s.LastStep = validInteger(record, "step", fields)
	seconds := *validNumber(record, "wall_time_ms", fields) / 1000
	s.DurationSeconds = &seconds
	loss := float64(float32(*validNumber(record, "loss", fields)))
	s.LossCurve = append(s.LossCurve, loss)
	if math.IsNaN(loss) {
		s.NonFinite++
		return
	}
	if s.LossMin == nil || loss < *s.LossMin {
		s.LossMin = &loss
	}
	if s.LossMax == nil || loss > *s.LossMax {
		s.LossMax = &loss
	}
	v.sum += loss
	v.finite++
}

func (v *metricsView) fill(summary *Summary) {
	profile, state := summary.Profile, summary.State
	*summary = v.summary
	summary.Profile, summary.State = profile, state
	if count := len(summary.LossCurve); count > 0 {
		summary.FinalLoss = &summary.LossCurve[count-1]
	} else {
		summary.LossCurve = []float64{}
	}
	if v.finite > 0 {
		mean := float64(float32(v.sum / float64(v.finite)))
		summary.LossMean = &mean
	}
}

type tagView struct {
	count     int
	latest    Point
	low, high *Point // the first with the smallest, and with the largest value
	minimize  *bool  // the last that was valid
}

type kaunView struct{ tags map[string]*tagView }

func (v *kaunView) take(record map[string]any) {
	fields := Kaun.fieldsOf(record)
	tag, tagged := validText(record, "tag", fields)
	step, value := truncated(record, "step", fields), validNumber(record, "value", fields)
	if !tagged || step == nil || value == nil {
		return
	}
	point := Point{step, truncated(record, "epoch", fields), *value}
	known := v.tags[tag]
	if known == nil {
		known = &tagView{latest: point}
		v.tags[tag] = known
	}
	known.count++
	if later(point, known.latest) {
		known.latest = point
	}
	if known.low == nil && !math.IsNaN(*value) {
		known.low, known.high = &point, &point
	} else if known.low != nil && *value < known.low.Value {
		known.low = &point
	} else if known.high != nil && *value > known.high.Value {
		known.high = &point
	}
	if minimize, ok := valid(record, "minimize", fields); ok {
		smaller := minimize.(bool)
		known.minimize = &smaller
	}
}

// truncated returns an integer member; of one with a fraction, the integer next to it towards zero.
func truncated(record map[string]any, key string, fields []field) *big.Int {
	number, ok := record[key].(json.Number)
	value, err := number.Float64()
	if ok && err == nil && value != math.Trunc(value) {
		whole, _ := big.NewFloat(value).Int(nil)
		record = map[string]any{key: whole}
	}
	return validInteger(record, key, fields)
}

func later(a, b Point) bool {
	if order := a.Step.Cmp(b.Step); order != 0 || a.Epoch == nil {
		return order > 0
	}
	return b.Epoch == nil || a.Epoch.Cmp(b.Epoch) > 0
}

func (v *kaunView) fill(summary *Summary) {
	summary.Tags = map[string]*Tag{}
	for name, tag := range v.tags {
		best := tag.high
		if tag.minimize != nil && *tag.minimize || tag.minimize == nil && namesLoss(name) {
			best = tag.low
		}
		summary.Tags[name] = &Tag{tag.count, tag.latest, best}
	}
}

// namesLoss reports whether smaller is better by the name of a tag alone.
func namesLoss(tag string) bool {
	name := strings.ToLower(tag)
	return strings.Contains(name, "loss") || strings.Contains(name, "error")
}
