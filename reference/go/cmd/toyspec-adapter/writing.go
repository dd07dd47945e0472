package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	toyspec "git.example.org/toyspec/toyspec/reference/go"
)

// held has the writers that stay open between two requests, by their directories.
var held = map[string]*toyspec.Writer{}

// reasons are those of run_end, by how a session ends.
var reasons = map[string]string{"closed": "completed", "errored": "errored", "interrupted": "interrupted"}

func writerAnswer(asked request) answer {
	switch {
	case asked.Release != "":
		return release(asked.Release)
	case asked.Directory != "":
		return sessionAnswer(asked)
	case asked.Role == "writer" && asked.Profile != string(toyspec.Toy):
		return appendedAnswer(asked)
	}
	var stream []byte
	var sequence toyspec.Sequence
	for _, raw := range asked.Records {
		record, err := untagRecord(raw)
		if err != nil {
			return refusal(err)
		}
		if asked.Role == "writer" && asked.Profile == string(toyspec.Toy) {
			if record, err = sequence.Admit(record); err != nil {
				return refusal(err)
			}
			sequence.Note(record)
		}
		line, err := toyspec.Encode(toyspec.Profile(asked.Profile), record)
		if err != nil {
			return refusal(err)
		}
		stream = append(stream, line...)
	}
	return answer{"outcome": "written", "stream": base64.StdEncoding.EncodeToString(stream)}
}

// appendedAnswer writes the records with a Writer, into a directory of their own.
func appendedAnswer(asked request) answer {
	directory, err := os.MkdirTemp("", "adapter-")
	if err != nil {
		return answer{"error": err.Error()}
	}
	defer os.RemoveAll(directory)
	asked.Directory, asked.Exist, asked.End = directory, "append", "killed"
	reply := sessionAnswer(asked)
	if reply["outcome"] != "written" {
		return reply
	}
	stream, err := os.ReadFile(streamPath(directory, toyspec.Profile(asked.Profile)))
	if err != nil {
		return answer{"error": err.Error()}
	}
	reply["stream"] = base64.StdEncoding.EncodeToString(stream)
	return reply
}

func refusal(err error) answer {
	return answer{"outcome": "refused", "reason": strings.ToValidUTF8(err.Error(), "\uFFFD")}
}

// sessionAnswer writes the records into a directory, and leaves the run as it is asked to.
func sessionAnswer(asked request) answer {
	profile := toyspec.Profile(asked.Profile)
	if profile != toyspec.Toy && asked.Exist != "append" {
		return answer{"untestable": "streams of metrics/v1 and kaun/v1 are only appended to"}
	}
	writer, err := openSession(asked.Directory, profile, asked.Exist)
	if err != nil {
		return refusal(err)
	}
	for _, raw := range asked.Records {
		record, err := untagRecord(raw)
		switch {
		case err != nil:
		case record["kind"] == "media" && len(asked.Media) > 0:
			err = writer.WriteMedia(record, asked.Media[0])
			asked.Media = asked.Media[1:]
		default:
			err = writer.Write(record)
		}
		if err != nil {
			writer.Close()
			return refusal(err)
		}
	}
	switch asked.End {
	case "held":
		held[asked.Directory] = writer
	case "killed":
		err = writer.Close()
	default:
		err = writer.End(reasons[asked.End], asked.Error)
	}
	if err != nil {
		return refusal(err)
	}
	return answer{"outcome": "written"}
}

func openSession(directory string, profile toyspec.Profile, exist string) (*toyspec.Writer, error) {
	if profile == toyspec.Toy && exist != "append" {
		return toyspec.Open(directory, toyspec.Exist(exist))
	}
	return toyspec.Append(streamPath(directory, profile), profile)
}

func streamPath(directory string, profile toyspec.Profile) string {
	if profile == toyspec.Metrics {
		return filepath.Join(directory, "metrics.jsonl")
	}
	return filepath.Join(directory, "events.jsonl")
}

func release(directory string) answer {
	writer := held[directory]
	if writer == nil {
		return answer{"error": "no writer is held in " + directory}
	}
	delete(held, directory)
	if err := writer.Close(); err != nil {
		return answer{"error": err.Error()}
	}
	return answer{"outcome": "written"}
}
