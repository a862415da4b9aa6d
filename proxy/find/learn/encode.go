package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MaxEncoded is how many bytes an encoded model may have.
const MaxEncoded = 16 << 20

// encodedAbout is more than what is not of a tool takes of them.
const encodedAbout = 4 << 10

// encoded is a model as it is stored.
type encoded struct {
	Format int           `json:"format"`
	About  About         `json:"about"`
	Tools  []encodedTool `json:"tools"`
}

type encodedTool struct {
	Server string         `json:"server"`
	Name   string         `json:"name"`
	Words  map[string]use `json:"words"` // by their stems
}

// use is stored as [count, day].
type use used

// MarshalJSON implements [json.Marshaler].
func (u use) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{u.count, u.day}) }

// UnmarshalJSON implements [json.Unmarshaler]. It also reads a count without a day.
func (u *use) UnmarshalJSON(text []byte) error {
	u.day = 0
	if json.Unmarshal(text, &u.count) == nil {
		return nil
	}
	var both [2]int
	err := json.Unmarshal(text, &both)
	u.count, u.day = both[0], both[1]
	return err
}

// format is the number of the way in which a model is stored.
const format = 1

func (t *trained) encoded() encodedTool {
	one := encodedTool{t.server, t.name, make(map[string]use, len(t.words))}
	for j, w := range t.words {
		one.Words[w] = use{t.counts[j], t.days[j]}
	}
	return one
}

// encodedSize is how many bytes a tool has in an encoded model.
func (t *trained) encodedSize() int {
	text, err := json.Marshal(t.encoded())
	if err != nil {
		return MaxEncoded
	}
	return len(text) + len(",")
}

// Encode returns a model as [Decode] reads it.
func (m *Model) Encode() ([]byte, error) {
	e := encoded{Format: format, About: m.About, Tools: make([]encodedTool, 0, len(m.tools))}
	for i := range m.tools {
		e.Tools = append(e.Tools, m.tools[i].encoded())
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
		for w, u := range of.Words {
			if u.count < 1 || u.count > MaxPerTool || u.day < 0 {
				return nil, fmt.Errorf("the model is damaged at %s", of.Name)
			}
			t.words = append(t.words, w)
		}
		slices.Sort(t.words)
		for _, w := range t.words {
			t.counts, t.days = append(t.counts, of.Words[w].count), append(t.days, of.Words[w].day)
		}
		m.tools = append(m.tools, t)
	}
	m.invert()
	return m, nil
}
