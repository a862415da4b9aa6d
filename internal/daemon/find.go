package daemon

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/learning"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Find implements [admin.Finder].
func (ctl *Control) Find(ctx context.Context, q admin.FindQuestion) (admin.Ranked, error) {
	switch {
	case len(q.Queries) == 0 || len(q.Queries) > admin.MaxQueries:
		return admin.Ranked{}, failure.Newf(failure.Usage, "ask for 1 to %d queries at once", admin.MaxQueries)
	case q.Limit < 1 || q.Limit > find.MaxHits:
		return admin.Ranked{}, failure.Newf(failure.Usage, "the limit must be from 1 to %d", find.MaxHits)
	}
	id, impersonated, err := ctl.d.identities.Asked(q.As, q.Assumed)
	if err != nil {
		return admin.Ranked{}, err
	}
	if q.Learned != nil {
		ctx = learning.With(ctx, *q.Learned)
	}
	ctl.d.gateway.Settle(ctx)
	originals := make(map[string]string) // by exposed name
	for _, c := range ctl.d.gateway.Capabilities() {
		if c.Kind == mcp.Tool {
			originals[c.Exposed] = c.Original
		}
	}
	out := admin.Ranked{Caller: callerName(id), Assumed: impersonated}
	for _, text := range q.Queries {
		asked := findview.Query{Text: text, Server: q.Server, Kind: mcp.Tool, Limit: max(q.Limit, findview.DefaultLimit)}
		r, err := proxy.Rank(ctx, ctl.d.gateway, id, proxy.Scope{Capsule: q.Capsule}, asked)
		if err != nil {
			return admin.Ranked{}, err
		}
		out.Rankings = append(out.Rankings, ranking(text, &r, q.Limit, originals))
	}
	return out, nil
}

// Searches implements [admin.SearchReader].
func (ctl *Control) Searches(ctx context.Context, since time.Time, limit int) ([]admin.Search, error) {
	if limit < 1 || limit > admin.MaxSearches {
		return nil, failure.Newf(failure.Usage, "the limit must be from 1 to %d", admin.MaxSearches)
	}
	if err := admin.CheckSince(since); err != nil {
		return nil, failure.New(failure.Usage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	list, err := store.NewLearning(ctl.d.store).Searches(ctx, since, limit)
	out := make([]admin.Search, len(list))
	for i := range list {
		p := &list[i]
		out[i] = admin.Search{At: p.At, Tenant: p.Tenant, Caller: p.Caller, Server: p.Server, Tool: p.Tool, Place: p.Place, Query: p.Query}
	}
	return out, err
}

// Train implements [admin.Learner].
func (ctl *Control) Train(ctx context.Context, q admin.TrainQuestion) ([]admin.Trained, error) {
	if q.Callers < 1 {
		return nil, failure.Newf(failure.Usage, "at least one caller must have called a tool")
	}
	did, err := ctl.d.learning.Train(ctx, q.Tenant, q.Callers)
	return did, ctl.changed(&records.Change{What: "find.train", Name: q.Tenant}, err)
}

// Forget implements [admin.Learner].
func (ctl *Control) Forget(ctx context.Context, tenant string) (admin.Forgotten, error) {
	n, err := ctl.d.learning.Forget(ctx, tenant)
	return admin.Forgotten{Pairs: n}, ctl.changed(&records.Change{What: "find.forget", Name: tenant}, err)
}

// ranking returns the first tools of a ranking, and the size of an answer with it.
func ranking(text string, of *proxy.Ranking, limit int, originals map[string]string) admin.Ranking {
	r := admin.Ranking{Query: text, Steps: of.Steps, Tools: []admin.RankedTool{}, More: of.More + max(0, len(of.Hits)-limit), Notes: of.Notes}
	answer := findview.Answer{More: of.More + max(0, len(of.Hits)-findview.DefaultLimit), Notes: of.Notes}
	for rank := range of.Hits {
		hit := &of.Hits[rank]
		if rank < findview.DefaultLimit {
			answer.Found = append(answer.Found, hit.Found)
		}
		if rank >= limit {
			continue
		}
		tool := admin.RankedTool{Name: hit.Name, Server: hit.Server, Original: originals[hit.Name], Score: hit.Score, Reasons: []admin.RankedReason{}}
		for _, why := range hit.Reasons {
			tool.Reasons = append(tool.Reasons, admin.RankedReason(why))
		}
		r.Tools = append(r.Tools, tool)
	}
	rendered, _ := answer.Render(findview.Fitting, findview.DefaultTokens)
	r.Tokens = schemas.Tokens(len(rendered))
	return r
}
