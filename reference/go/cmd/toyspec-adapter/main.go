// Command toyspec-adapter lets the conformance runner test this module: see conformance/PROTOCOL.md.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

const hello = `{"hello":{"protocol":1,"name":"toyspec-go","language":"Go","version":"0.1.0","profiles":["toy/v1","metrics/v1","kaun/v1"],` +
	`"revisions":["1.4"],"roles":["reader","summarizer","writer","canonical-writer"],"lines":true,` +
	`"capabilities":["line_limit","bundle","ranks","session","media","own_kinds"]}}`

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
	Exist        string            `json:"exist"`
	End          string            `json:"end"`
	Error        string            `json:"error"`
	Release      string            `json:"release"`
	Media        [][]byte          `json:"media"`
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
		fmt.Println(string(encoded(reply)))
	}
}

func encoded(reply answer) []byte {
	text, err := json.Marshal(reply)
	if err != nil {
		panic(err)
	}
	return text
}

func answerOnce(role string, options []string) int {
	asked := requestOf(role, options)
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	if role == "reader" || role == "summarizer" {
		asked.Stream = input
		reply := answerTo(asked)
		fmt.Println(string(encoded(reply)))
		if reply["outcome"] == "read" || reply["summary"] != nil {
			return 0
		}
		return 1
	}
	for _, line := range bytes.Split(bytes.TrimSuffix(input, []byte("\n")), []byte("\n")) {
		if len(line) > 0 {
			asked.Records = append(asked.Records, line)
		}
	}
	reply := answerTo(asked)
	if reply["outcome"] != "written" {
		fmt.Fprintln(os.Stderr, reply["reason"], reply["error"])
		return 1
	}
	if text, ok := reply["stream"].(string); ok {
		stream, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			panic(err)
		}
		os.Stdout.Write(stream)
	}
	return 0
}

func requestOf(role string, options []string) request {
	asked := request{Role: role}
	texts := map[string]*string{"--mode": &asked.Mode, "--name": &asked.Name, "--profile": &asked.Profile,
		"--directory": &asked.Directory, "--exist": &asked.Exist, "--end": &asked.End, "--error": &asked.Error}
	for i := 0; i+1 < len(options); i += 2 {
		if text := texts[options[i]]; text != nil {
			*text = options[i+1]
		} else if options[i] == "--max-line-bytes" {
			fmt.Sscan(options[i+1], &asked.MaxLineBytes)
		}
	}
	return asked
}

func answerTo(asked request) answer {
	switch asked.Role {
	case "reader":
		return readerAnswer(asked)
	case "summarizer":
		return summaryAnswer(asked)
	case "writer", "canonical-writer":
		return writerAnswer(asked)
	}
	return answer{"untestable": "no such role: " + asked.Role}
}
