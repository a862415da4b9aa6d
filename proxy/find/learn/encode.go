package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MaxEncoded is how many bytes an encoded model may have.
const MaxEncoded = 32 << 20

// encoded is a model as it is stored.
type encoded struct {
	Format int           `json:"format"`
	About  About         `json:"about"`
	Tools  []encodedTool `json:"tools"`
}

type encodedTool struct {
	Server string         `json:"server"`
	Name   string         `json:"name"`
	Words  map[string]int `json:"words"` // stems
}

// format is the number of the way in which a model is stored.
const format = 1

// Encode returns a model as [Decode] reads it.
func (m *Model) Encode() ([]byte, error) {
	e := encoded{Format: format, About: m.About, Tools: make([]encodedTool, 0, len(m.tools))}
	for i := range m.tools {
		t := &m.tools[i]
		one := encodedTool{t.server, t.name, make(map[string]int, len(t.words))}
		for j, w := range t.words {
			one.Words[w] = t.counts[j]
		}
		e.Tools = append(e.Tools, one)
	}
	text, err := json.Marshal(e)
	if err == nil && len(text) > MaxEncoded {
		err = fmt.Errorf("a model of %d bytes is too large", len(text))
	}
	return text, err
}

// Decode reads a model. What exceeds the limits of a model is an error.
func Decode(text []byte) (*Model, error) {
	if len(text) > MaxEncoded {
		return nil, fmt.Errorf("a model of %d bytes is too large", len(text))
	}
	var e encoded
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	if e.Format != format || len(e.Tools) > maxTools {
		return nil, errors.New("the model is of another version")
	}
	m := &Model{About: e.About}
	known := make(map[tool]bool, len(e.Tools))
	for i := range e.Tools {
		of := &e.Tools[i]
		t := trained{tool: tool{of.Server, of.Name}}
		if known[t.tool] || len(of.Words) > maxWords || len(of.Words) == 0 {
			return nil, fmt.Errorf("the model is damaged at %s", of.Name)
		}
		known[t.tool] = true
		for w, n := range of.Words {
			if n < 1 || n > MaxPerTool {
				return nil, fmt.Errorf("the model is damaged at %s", of.Name)
			}
			t.words = append(t.words, w)
		}
		slices.Sort(t.words)
		for _, w := range t.words {
			t.counts = append(t.counts, of.Words[w])
		}
		m.tools = append(m.tools, t)
	}
	m.invert()
	return m, nil
}
