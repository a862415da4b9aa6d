package memory

import (
	"context"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/toolapi"
)

type rememberIn struct {
	Note string `json:"note" jsonschema:"what has worked, or has not"`
	Tool string `json:"tool,omitempty" jsonschema:"the name of the tool that it is about"`
	Days int    `json:"days,omitempty" jsonschema:"how many days it is kept, at most 365; 90 if left out"`
}

// aboutEnd ends the name of the tool in the text of a note. It is not in the name of
// any tool.
const aboutEnd = "\n"

func (g *tools) remember(ctx context.Context, _ *toolapi.Call, in rememberIn) (saved, error) {
	if strings.Contains(in.Tool, aboutEnd) || len(in.Tool) > 128 {
		return saved{}, toolapi.Problemf("tool is the name of a tool.")
	}
	if strings.TrimSpace(in.Note) == "" {
		return saved{}, toolapi.Problemf("The note is empty.")
	}
	return g.keep(ctx, Note, "", in.Tool+aboutEnd+in.Note, in.Days)
}

type recallIn struct {
	Query string `json:"query,omitempty" jsonschema:"words that the note has"`
	Tool  string `json:"tool,omitempty" jsonschema:"the name of the tool that it is about"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many notes at most, up to 50; 5 if left out"`
}

type note struct {
	ID      string    `json:"id"`
	Tool    string    `json:"tool,omitempty"`
	Note    string    `json:"note"`
	Score   float64   `json:"score" jsonschema:"the share of the words that the note has"`
	SavedAt time.Time `json:"saved_at"`
}

type recalled struct {
	Notes []note `json:"notes"`
	More  int    `json:"more" jsonschema:"how many further notes match"`
}

func (g *tools) recall(ctx context.Context, _ *toolapi.Call, in recallIn) (recalled, error) {
	all, err := g.find(ctx, Note, "", in.Query, 0)
	if err != nil {
		return recalled{}, err
	}
	var about []found
	for _, r := range all {
		if tool, _, _ := strings.Cut(r.Body, aboutEnd); in.Tool == "" || tool == in.Tool {
			about = append(about, r)
		}
	}
	list, err := first(about, in.Limit)
	if err != nil {
		return recalled{}, err
	}
	out := recalled{Notes: []note{}, More: len(about) - len(list)}
	for _, r := range list {
		tool, body, _ := strings.Cut(r.Body, aboutEnd)
		out.Notes = append(out.Notes, note{r.ID, tool, body, r.score, r.SavedAt.Truncate(time.Second)})
	}
	return out, nil
}
