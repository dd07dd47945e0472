// Writes the requested records, one for each line of input, for the fault runner: see conformance/faults/programs.py.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	toyspec "git.example.org/toyspec/toyspec/reference/go"
)

var (
	errUnknown     = errors.New("no such command")
	errNothingOpen = errors.New("nothing is open")
)

// values make what is hostile, by name.
var values = map[string]func() map[string]any{
	"long-integer": func() map[string]any { return step(json.Number("1" + strings.Repeat("0", 400))) },
	"zeros":        func() map[string]any { return step(json.Number("007")) },
	"bad-utf8":     func() map[string]any { return map[string]any{"kind": "note", "text": "a\xff"} },
	"twin-keys": func() map[string]any {
		return map[string]any{"kind": "mine", "m": map[string]any{"a\xff": 1, "a\xfe": 2}}
	},
	"nan": func() map[string]any {
		return map[string]any{"kind": "step", "phase": "train", "step": 1000, "loss": math.NaN()}
	},
	"deep": func() map[string]any {
		nested := []any{}
		for range 100 {
			nested = []any{nested}
		}
		return map[string]any{"kind": "mine", "m": nested}
	},
	"long":    func() map[string]any { return map[string]any{"kind": "note", "text": strings.Repeat("x", 17_000_000)} },
	"no-kind": func() map[string]any { return map[string]any{"m": 1} },
}

func step(number any) map[string]any {
	return map[string]any{"kind": "step", "phase": "train", "step": number, "loss": 0.5}
}

func record(command, rest string) (map[string]any, error) {
	words := strings.Fields(rest)
	numbers := make([]int, len(words))
	for i, word := range words {
		var err error
		if numbers[i], err = strconv.Atoi(word); err != nil {
			return nil, err
		}
	}
	switch command {
	case "start":
		return map[string]any{"kind": "run_start", "run_id": "demo"}, nil
	case "resume":
		return map[string]any{"kind": "run_resume", "from_step": numbers[0]}, nil
	case "step":
		return step(numbers[0]), nil
	case "note":
		return map[string]any{"kind": "note", "text": strings.Repeat("x", numbers[1]), "step": numbers[0]}, nil
	case "entry":
		return map[string]any{"step": numbers[0], "wall_time_ms": 1.0, "loss": 0.5, "grad_norm": 0.5,
			"throughput_samples_per_sec": 1.0, "extra": map[string]any{}}, nil
	case "end":
		return map[string]any{"kind": "run_end", "reason": "completed"}, nil
	}
	return nil, errUnknown
}

// obey does what a command says with the writer, which it may replace.
func obey(writer **toyspec.Writer, command, rest string) (string, error) {
	var err error
	if *writer == nil && command == "close" {
		return "ok", nil
	}
	if *writer == nil && command != "open" && command != "append" {
		return "ok", errNothingOpen
	}
	switch command {
	case "open":
		exist, directory, _ := strings.Cut(rest, " ")
		opened, err := toyspec.Open(directory, toyspec.Exist(exist))
		if err == nil {
			*writer = opened
		}
		return "ok", err
	case "append":
		*writer, err = toyspec.Append(rest, toyspec.Metrics)
		return "ok", err
	case "close":
		return "ok", (*writer).Close()
	case "dropped":
		return fmt.Sprintf("ok %d", (*writer).Dropped()), nil
	case "fork":
		return "untestable Go programs do not fork", nil
	case "read":
		_, err = toyspec.ReadFile(rest, toyspec.Options{}, func(toyspec.Record) error { return nil })
		return "ok", err
	case "value":
		if make, known := values[rest]; known {
			return "ok", (*writer).Write(make())
		}
		return "untestable Go has no such value", nil
	}
	asked, err := record(command, rest)
	if err == nil {
		err = (*writer).Write(asked)
	}
	return "ok", err
}

func main() {
	// strace counts the calls of each thread.
	runtime.LockOSThread()
	var writer *toyspec.Writer
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		answer, err := obey(&writer, command, rest)
		if err != nil {
			answer = "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}
