// Command toyspec-adapter lets the conformance runner test this module: see conformance/PROTOCOL.md.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"toyspec"
)

const hello = `{"hello":{"protocol":1,"name":"toyspec-go","language":"Go","version":"0.1.0","profiles":["toy/v1","metrics/v1","kaun/v1"],` +
	`"roles":["reader","writer","canonical-writer"],"lines":true,"capabilities":["line_limit","own_kinds"]}}`

type request struct {
	ID           *int              `json:"id"`
	Role         string            `json:"role"`
	Stream       []byte            `json:"stream"`
	Directory    string            `json:"directory"`
	Mode         string            `json:"mode"`
	Name         string            `json:"name"`
	Profile      string            `json:"profile"`
	MaxLineBytes int               `json:"max_line_bytes"`
	Records      []json.RawMessage `json:"records"`
}

type answer map[string]any

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "--hello":
		fmt.Println(hello)
	case len(os.Args) == 2 && os.Args[1] == "--lines":
		answerLines()
	case len(os.Args) >= 3 && os.Args[1] == "--oneshot":
		os.Exit(answerOnce(os.Args[2], os.Args[3:]))
	default:
		fmt.Fprintln(os.Stderr, "usage: toyspec-adapter --hello | --lines | --oneshot ROLE [--option value …]")
		os.Exit(2)
	}
}

func answerLines() {
	fmt.Println(hello)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		reply := answer{}
		if err := json.Unmarshal(line, &asked); err != nil {
			reply["error"] = err.Error()
		} else {
			reply = answerTo(asked)
		}
		if asked.ID != nil {
			reply["id"] = *asked.ID
		}
		encoded, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(encoded))
	}
}

func answerOnce(role string, options []string) int {
	asked := request{Role: role}
	for i := 0; i+1 < len(options); i += 2 {
		switch options[i] {
		case "--mode":
			asked.Mode = options[i+1]
		case "--name":
			asked.Name = options[i+1]
		case "--profile":
			asked.Profile = options[i+1]
		case "--directory":
			asked.Directory = options[i+1]
		case "--max-line-bytes":
			fmt.Sscan(options[i+1], &asked.MaxLineBytes)
		}
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	if role == "reader" {
		asked.Stream = input
		reply := answerTo(asked)
		encoded, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(encoded))
		if reply["outcome"] == "read" {
			return 0
		}
		return 1
	}
	for _, line := range bytes.Split(bytes.TrimSuffix(input, []byte("\n")), []byte("\n")) {
		asked.Records = append(asked.Records, line)
	}
	reply := answerTo(asked)
	if reply["outcome"] != "written" {
		fmt.Fprintln(os.Stderr, reply["reason"], reply["error"])
		return 1
	}
	stream, err := base64.StdEncoding.DecodeString(reply["stream"].(string))
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(stream)
	return 0
}

func answerTo(asked request) answer {
	switch asked.Role {
	case "reader":
		return readerAnswer(asked)
	case "writer", "canonical-writer":
		return writerAnswer(asked)
	}
	return answer{"untestable": "no such role: " + asked.Role}
}

func readerAnswer(asked request) answer {
	if asked.Directory != "" {
		return answer{"untestable": "this adapter reads streams"}
	}
	options := toyspec.Options{Mode: toyspec.Mode(asked.Mode), Profile: toyspec.Profile(asked.Profile), Name: asked.Name, MaxLineBytes: asked.MaxLineBytes}
	values := []map[string]any{}
	report, err := toyspec.Read(bytes.NewReader(asked.Stream), options, func(record toyspec.Record) error {
		values = append(values, record.Value)
		return nil
	})
	var refused *toyspec.StreamError
	if err != nil && !errors.As(err, &refused) {
		return answer{"error": err.Error()}
	}
	records := make([]any, 0, len(values))
	for _, value := range values {
		records = append(records, tagRecord(report.Profile, value))
	}
	gaps := []answer{}
	for _, gap := range report.Gaps {
		gaps = append(gaps, answer{"offset": gap.Offset, "length": gap.Length, "reason": gap.Reason})
	}
	reply := answer{"outcome": "read", "profile": report.Profile, "state": report.State, "records": records, "count": report.Records,
		"committed": report.Committed, "fragment": report.Fragment, "gap_bytes": report.GapBytes, "gaps": gaps}
	if refused != nil {
		reply["outcome"] = "fails"
		if report.GapBytes > 0 {
			reply["error"] = answer{"line": refused.Line, "offset": refused.Offset, "reason": refused.Reason}
		}
	}
	return reply
}

func writerAnswer(asked request) answer {
	var stream []byte
	var sequence toyspec.Sequence
	for _, raw := range asked.Records {
		record, err := untagRecord(raw)
		if err != nil {
			return answer{"error": err.Error()}
		}
		if asked.Role == "writer" && asked.Profile == string(toyspec.Toy) {
			if record, err = sequence.Admit(record); err != nil {
				return answer{"outcome": "refused", "reason": strings.ToValidUTF8(err.Error(), "\uFFFD")}
			}
			sequence.Note(record)
		}
		line, err := toyspec.Encode(toyspec.Profile(asked.Profile), record)
		if err != nil {
			return answer{"outcome": "refused", "reason": strings.ToValidUTF8(err.Error(), "\uFFFD")}
		}
		stream = append(stream, line...)
	}
	return answer{"outcome": "written", "stream": base64.StdEncoding.EncodeToString(stream)}
}
