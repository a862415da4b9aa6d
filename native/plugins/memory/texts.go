package memory

import (
	"context"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/toolapi"
)

type saveIn struct {
	Text string `json:"text" jsonschema:"what to keep"`
	Name string `json:"name,omitempty" jsonschema:"a name to load it by"`
	Days int    `json:"days,omitempty" jsonschema:"how many days it is kept, at most 365; 90 if left out"`
}

func (g *tools) save(ctx context.Context, _ *toolapi.Call, in saveIn) (saved, error) {
	return g.keep(ctx, Text, in.Name, in.Text, in.Days)
}

type loadIn struct {
	Query     string  `json:"query,omitempty" jsonschema:"words that the text has"`
	Name      string  `json:"name,omitempty" jsonschema:"the name of the text"`
	Threshold float64 `json:"threshold,omitempty" jsonschema:"the least share of the words that the text has, from 0 to 1; any word if left out"`
	Limit     int     `json:"limit,omitempty" jsonschema:"how many texts at most, up to 50; 5 if left out"`
}

type text struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Text      string    `json:"text"`
	Score     float64   `json:"score" jsonschema:"the share of the words that the text has"`
	SavedAt   time.Time `json:"saved_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

type loaded struct {
	Memories []text `json:"memories"`
	More     int    `json:"more" jsonschema:"how many further texts match"`
}

func (g *tools) load(ctx context.Context, _ *toolapi.Call, in loadIn) (loaded, error) {
	all, err := g.find(ctx, Text, in.Name, in.Query, in.Threshold)
	if err != nil {
		return loaded{}, err
	}
	list, err := first(all, in.Limit)
	if err != nil {
		return loaded{}, err
	}
	out := loaded{Memories: []text{}, More: len(all) - len(list)}
	for _, r := range list {
		out.Memories = append(out.Memories, text{r.ID, r.Name, r.Body, r.score, r.SavedAt.Truncate(time.Second), r.ExpiresAt})
	}
	return out, nil
}

type deleteIn struct {
	IDs string `json:"ids" jsonschema:"the ids, separated by commas"`
}

type deleted struct {
	Deleted []string `json:"deleted" jsonschema:"the ids of what was deleted"`
}

func (g *tools) delete(ctx context.Context, _ *toolapi.Call, in deleteIn) (deleted, error) {
	ids := strings.FieldsFunc(in.IDs, func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(ids) == 0:
		return deleted{}, toolapi.Problemf("Say which to delete: {\"ids\": \"mem_..., mem_...\"}.")
	case len(ids) > maxFound:
		return deleted{}, toolapi.Problemf("At most %d ids are deleted by one call.", maxFound)
	}
	return g.remove(ctx, ids)
}

type forgetIn struct {
	Query     string   `json:"query" jsonschema:"words that the text has"`
	Threshold *float64 `json:"threshold,omitempty" jsonschema:"the least share of the words that the text has, from 0 to 1; 0.75 if left out"`
}

func (g *tools) forget(ctx context.Context, _ *toolapi.Call, in forgetIn) (deleted, error) {
	threshold := forgetThreshold
	if in.Threshold != nil {
		threshold = *in.Threshold
	}
	if len(newMatch(in.Query).words) == 0 {
		return deleted{}, toolapi.Problemf("The query has no word; to delete everything, delete the ids that load returns.")
	}
	list, err := g.find(ctx, Text, "", in.Query, threshold)
	if err != nil {
		return deleted{}, err
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	return g.remove(ctx, ids)
}

func (g *tools) remove(ctx context.Context, ids []string) (deleted, error) {
	removed, err := g.o.Keeper.Delete(ctx, caller(ctx), ids...)
	if err != nil {
		return deleted{}, err
	}
	return deleted{append([]string{}, removed...)}, nil
}
