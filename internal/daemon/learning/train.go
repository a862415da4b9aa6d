package learning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

// Train makes a model of the pairs of a tenant, or of each for an empty name, and puts it
// in the place of the one before.
func (s *Service) Train(ctx context.Context, tenant string, callers int) ([]admin.Trained, error) {
	tenants, err := s.o.Store.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	out := []admin.Trained{}
	for _, name := range tenants {
		if tenant != "" && name != tenant {
			continue
		}
		one, err := s.train(ctx, name, callers)
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", name, err)
		}
		out = append(out, one)
	}
	return out, s.load(ctx)
}

// maxTrains is how often a model is made anew because its searches were forgotten
// meanwhile.
const maxTrains = 3

func (s *Service) train(ctx context.Context, tenant string, callers int) (did admin.Trained, err error) {
	for range maxTrains {
		did, err = s.trainOnce(ctx, tenant, callers)
		if !errors.Is(err, store.ErrForgotten) {
			break
		}
	}
	return did, err
}

func (s *Service) trainOnce(ctx context.Context, tenant string, callers int) (admin.Trained, error) {
	of, err := s.o.Store.Pairs(ctx, tenant)
	if err != nil {
		return admin.Trained{}, err
	}
	list := of.Pairs
	if len(list) == 0 { // they are gone since the tenants were listed
		return admin.Trained{Tenant: tenant}, nil
	}
	pairs := make([]learn.Pair, len(list))
	for i := range list {
		p := &list[i]
		pairs[i] = learn.Pair{Query: p.Query, Server: p.Server, Tool: p.Tool, Caller: p.Caller, At: p.At}
	}
	m := learn.Train(pairs, callers)
	text, err := m.Encode()
	if err != nil {
		return admin.Trained{}, err
	}
	return admin.Trained{
		Tenant: tenant, Recorded: len(list), Pairs: m.About.Pairs, Callers: m.About.Callers, Tools: m.About.Tools, Left: m.About.Left, Shadow: shadowOf(list),
	}, s.o.Store.PutModel(ctx, &of, text)
}

// shadowOf compares the answers with what they would have been, nil where no model was
// compared.
func shadowOf(list []store.SearchPair) *admin.Shadow {
	var sum admin.Shadow
	for i := range list {
		if list[i].Shadow == 0 {
			continue
		}
		sum.Pairs++
		sum.Served += 1 / float64(list[i].Place)
		if list[i].Shadow > 0 {
			sum.Learned += 1 / float64(list[i].Shadow)
		}
		switch {
		case list[i].Shadow < 0 || list[i].Shadow > list[i].Place:
			sum.Worse++
		case list[i].Shadow < list[i].Place:
			sum.Better++
		}
	}
	if sum.Pairs == 0 {
		return nil
	}
	sum.Served /= float64(sum.Pairs)
	sum.Learned /= float64(sum.Pairs)
	return &sum
}

// Forget removes what was kept and learned of a tenant, and returns how many pairs that
// were.
func (s *Service) Forget(ctx context.Context, tenant string) (pairs int, err error) {
	s.mu.Lock()
	s.forgotten[tenant] = time.Now()
	s.mu.Unlock()
	defer s.Changed()
	if pairs, err = s.o.Store.Forget(ctx, tenant); err != nil {
		return 0, err
	}
	return pairs, s.load(ctx)
}
