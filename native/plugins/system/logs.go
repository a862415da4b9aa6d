package system

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	"github.com/toolgate/toolgate/native/toolapi"
)

// longestLine bounds how much of a line is returned, in bytes.
const longestLine = 8 << 10

type logEnd struct {
	Path     string   `json:"path"`
	Lines    []string `json:"lines"`
	Size     int64    `json:"size"`
	Modified string   `json:"modified"`
	Searched int64    `json:"searched_bytes"`
	Complete bool     `json:"complete"`
}

func (s *service) readLogs(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
	end := logEnd{Lines: []string{}}
	most, contains := 100, ""
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"path": &end.Path, "lines": &most, "contains": &contains}); err != nil {
		return toolapi.Result{}, err
	}
	if most < 1 || most > 5000 {
		return toolapi.Result{}, toolapi.Problemf("lines is between 1 and 5000.")
	}
	f, err := s.logs.Open(end.Path)
	if err != nil {
		return toolapi.Result{}, err
	}
	defer f.Close()
	end.Size, end.Modified = f.Info.Size(), f.Info.ModTime().UTC().Format(time.RFC3339)
	from := max(0, end.Size-s.max)
	data, err := io.ReadAll(io.NewSectionReader(f, from, end.Size-from))
	if err != nil {
		return toolapi.Result{}, toolapi.Problemf("%q cannot be read: %v.", end.Path, err)
	}
	end.Searched = int64(len(data))
	if from > 0 { // the first line is incomplete
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	end.Complete = end.tail(data, most, contains) && from == 0
	return toolapi.Answer(end)
}

// tail returns the last lines that contain a text, and tells whether these are all
// such lines.
func (e *logEnd) tail(data []byte, most int, contains string) bool {
	data = bytes.TrimSuffix(data, []byte("\n"))
	for rest := len(data) > 0; rest; {
		line := data
		if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
			data, line = data[:i], data[i+1:]
		} else {
			rest = false
		}
		if !bytes.Contains(line, []byte(contains)) {
			continue
		}
		if len(e.Lines) == most {
			slices.Reverse(e.Lines)
			return false
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		text := legible(string(line[:min(len(line), longestLine)]))
		if len(line) > longestLine {
			text += "..."
		}
		e.Lines = append(e.Lines, text)
	}
	slices.Reverse(e.Lines)
	return true
}
