package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	defaultDays, maxDays   = 90, 365
	defaultFound, maxFound = 5, 50
	// forgetThreshold is the score from which forget removes a text.
	forgetThreshold = 0.75
)

// Kind separates the texts of a principal by what they are for.
type Kind string

// The kinds.
const (
	Text Kind = "memory"
	Note Kind = "note"
)

// Record is a text that is kept.
type Record struct {
	ID, Name, Body     string
	SavedAt, ExpiresAt time.Time
}

// Errors of a [Keeper] that are the caller's to solve.
var (
	ErrFull  = errors.New("the principal keeps as many texts as it may")
	ErrLarge = errors.New("the text is larger than what is kept")
)

// Keeper keeps texts, each for one principal alone. It is safe for concurrent use. Every
// error but [ErrFull] and [ErrLarge] is internal.
type Keeper interface {
	// Save keeps a text until it expires and returns it with its id. It takes the place
	// of the text of the same kind and name, if the name is not empty.
	Save(ctx context.Context, principal string, kind Kind, r Record) (Record, error)
	// List returns the texts of a kind, the latest first.
	List(ctx context.Context, principal string, kind Kind) ([]Record, error)
	// Delete removes those of some texts that the principal keeps, and returns their ids.
	Delete(ctx context.Context, principal string, ids ...string) ([]string, error)
}

// Options are what the group needs. All of it is required.
type Options struct {
	Keeper Keeper
	// MostTexts and MostBytes are the limits of the keeper, for what is told of them.
	MostTexts, MostBytes int
	// Redact removes the secrets from a text before it is kept. On an error the text is
	// not kept.
	Redact func(text string) (string, error)
}

// Plugin returns the group.
func Plugin(o Options) *toolapi.Plugin {
	g := &tools{o}
	p := toolapi.New(Name, "")
	toolapi.Add(p, toolapi.Tool{
		Name: "save", Title: "Save a memory", Category: Name, Risk: toolapi.Low, RatePerHour: 3600,
		Description: "Keep a text for later sessions. Nobody else can read it. Secrets in it are replaced by marks. A text with the name of an earlier one takes its place.",
	}, g.save)
	toolapi.Add(p, toolapi.Tool{
		Name: "load", Title: "Load memories", Category: Name, Risk: toolapi.Low, ReadOnly: true, Idempotent: true, RatePerHour: 3600,
		Description: "Find texts that were kept with save: by words in them, by their name, or the latest if neither is given.",
	}, g.load)
	toolapi.Add(p, toolapi.Tool{
		Name: "delete", Title: "Delete memories", Category: Name, Risk: toolapi.Low, Destructive: true, Idempotent: true, RatePerHour: 3600,
		Description: "Delete memories or notes by their ids.",
	}, g.delete)
	toolapi.Add(p, toolapi.Tool{
		Name: "forget", Title: "Forget memories", Category: Name, Risk: toolapi.Low, Destructive: true, Idempotent: true, RatePerHour: 3600,
		Description: "Delete the memories that have the words of a query. load with the same query and threshold shows which those are.",
	}, g.forget)
	toolapi.Add(p, toolapi.Tool{
		Name: "remember", Title: "Remember what worked", Category: Name, Risk: toolapi.Low, RatePerHour: 3600,
		Description: "Keep a note of what has worked, or has not, for later sessions. recall finds it again.",
	}, g.remember)
	toolapi.Add(p, toolapi.Tool{
		Name: "recall", Title: "Recall what worked", Category: Name, Risk: toolapi.Low, ReadOnly: true, Idempotent: true, RatePerHour: 3600,
		Description: "Find notes that were kept with remember: by words in them, by the tool they are about, or the latest if neither is given.",
	}, g.recall)
	return p
}

// tools are the functions of the group.
type tools struct{ o Options }

type saved struct {
	ID        string    `json:"id"`
	ExpiresAt time.Time `json:"expires_at"`
	Redacted  bool      `json:"redacted,omitempty" jsonschema:"secrets in the text were replaced by marks"`
}

// keep keeps a text of the caller.
func (g *tools) keep(ctx context.Context, kind Kind, name, text string, days int) (saved, error) {
	switch {
	case days == 0:
		days = defaultDays
	case days < 0 || days > maxDays:
		return saved{}, toolapi.Problemf("days is from 1 to %d.", maxDays)
	}
	if strings.TrimSpace(text) == "" {
		return saved{}, toolapi.Problemf("The text is empty.")
	}
	if strings.ContainsRune(text+name, 0) {
		return saved{}, toolapi.Problemf("The text has a NUL character.")
	}
	clean, err := g.o.Redact(text)
	if err != nil {
		return saved{}, fmt.Errorf("look for secrets in a text: %w", err)
	}
	cleanName, err := g.o.Redact(name)
	if err != nil {
		return saved{}, fmt.Errorf("look for secrets in a name: %w", err)
	}
	expires := time.Now().Add(time.Duration(days) * 24 * time.Hour).UTC().Truncate(time.Second)
	got, err := g.o.Keeper.Save(ctx, caller(ctx), kind, Record{Name: cleanName, Body: clean, ExpiresAt: expires})
	switch {
	case errors.Is(err, ErrFull):
		return saved{}, toolapi.Problemf("You keep %d texts of this kind already, which is the most; delete some of them first.", g.o.MostTexts)
	case errors.Is(err, ErrLarge):
		return saved{}, toolapi.Problemf("A text has at most %d bytes and a name at most 128; this is more.", g.o.MostBytes)
	case err != nil:
		return saved{}, err
	}
	return saved{ID: got.ID, ExpiresAt: got.ExpiresAt, Redacted: clean != text || cleanName != name}, nil
}

// found is a text of the caller with its score.
type found struct {
	Record
	score float64
}

// find returns the texts of the caller that match, the best first. All match an empty
// query.
func (g *tools) find(ctx context.Context, kind Kind, name, query string, threshold float64) ([]found, error) {
	if threshold < 0 || threshold > 1 {
		return nil, toolapi.Problemf("threshold is from 0 to 1.")
	}
	list, err := g.o.Keeper.List(ctx, caller(ctx), kind)
	if err != nil {
		return nil, err
	}
	var all []Record
	var texts []string
	for _, r := range list {
		if name == "" || r.Name == name {
			all, texts = append(all, r), append(texts, r.Name+" "+r.Body)
		}
	}
	var out []found
	if query == "" {
		for _, r := range all {
			out = append(out, found{r, 1})
		}
		return out, nil
	}
	for _, s := range newMatch(query).best(texts, threshold) {
		out = append(out, found{all[s.index], s.score})
	}
	return out, nil
}

// first returns at most limit of some texts; 0 is the default.
func first(list []found, limit int) ([]found, error) {
	switch {
	case limit == 0:
		limit = defaultFound
	case limit < 0 || limit > maxFound:
		return nil, toolapi.Problemf("limit is from 1 to %d.", maxFound)
	}
	return list[:min(limit, len(list))], nil
}

// caller returns the principal of a call; empty, which keeps nothing, for none.
func caller(ctx context.Context) string {
	if call := inside.CallOf(ctx); call != nil {
		return call.Principal
	}
	return ""
}
