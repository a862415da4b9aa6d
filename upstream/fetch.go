package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// maxTTL bounds the ttlMs of a server.
const maxTTL = 24 * time.Hour

// fetch reads all lists of the server. A list that exceeds a limit is cut there, and cut
// says why. A list that cannot be read does not affect the others: cut names it, and so
// does [mcp.Listing.Unread]. An error means that nothing is known.
func (c *Conn) fetch(ctx context.Context) (listing *mcp.Listing, cut string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.spec.Timeouts.List, errCallTimeout)
	defer cancel()
	l := &mcp.Listing{
		Era: c.era, Version: c.version, ServerInfo: c.info, Capabilities: c.capabilities,
		Instructions: c.instructions, FetchedAt: time.Now(),
		Items: make(map[mcp.Kind][]mcp.Item), TTL: make(map[mcp.Kind]time.Duration),
	}
	bytes, count := 0, 0
	var reasons []string
	var first error
	for _, kind := range c.fetchOrder() {
		if !l.Declares(kind.Feature()) {
			continue
		}
		why, err := "", context.Cause(ctx)
		if err == nil {
			why, err = c.fetchKind(ctx, kind, l, &bytes)
			c.slow[kind].Store(errors.Is(err, errCallTimeout))
		}
		switch {
		case err == nil:
			count += len(l.Items[kind])
		case !c.ofOneList(ctx, err):
			return nil, "", fmt.Errorf("%s: %w", kind.ListMethod(), err)
		default:
			delete(l.Items, kind)
			l.Unread = append(l.Unread, kind)
			first = cmp.Or(first, fmt.Errorf("%s: %w", kind.ListMethod(), err))
			why = err.Error()
		}
		if why != "" {
			reasons = append(reasons, kind.ListMethod()+": "+why)
		}
	}
	if first != nil && count == 0 {
		return nil, "", first
	}
	return l, strings.Join(reasons, "; "), nil
}

// fetchOrder returns the kinds in the order in which they are read. A kind whose last
// request timed out comes last, so that it takes no time from the others.
func (c *Conn) fetchOrder() []mcp.Kind {
	order := slices.Clone(mcp.Kinds[:])
	slices.SortStableFunc(order, func(a, b mcp.Kind) int {
		mute := func(k mcp.Kind) int {
			if c.slow[k].Load() {
				return 1
			}
			return 0
		}
		return mute(a) - mute(b)
	})
	return order
}

// ofOneList tells whether an error concerns one list alone: the server has answered with
// it, or has not answered in time, and the connection, the session and the credential are
// still good.
func (c *Conn) ofOneList(ctx context.Context, err error) bool {
	var login *transport.LoginError
	switch _, aside := errors.AsType[*transport.ForbiddenError](err); {
	case c.link.Cause() != nil:
		return false
	case aside:
		return true
	case ctx.Err() != nil:
		return errors.Is(context.Cause(ctx), errCallTimeout)
	}
	return transport.Delivered(err) && !errors.Is(err, transport.ErrSessionLost) && !errors.As(err, &login)
}

// fetchKind reads all pages of one list (2026-07-28 server/utilities/pagination).
func (c *Conn) fetchKind(ctx context.Context, kind mcp.Kind, l *mcp.Listing, bytes *int) (cut string, err error) {
	limits := &c.spec.Limits
	var cursor []byte
	cursors, keys := make(map[string]bool), make(map[string]bool)
	skipped := 0
	for page := 0; ; page++ {
		if page == limits.Pages {
			return fmt.Sprintf("more than %d pages (limits.pages); the rest is left out", limits.Pages), nil
		}
		var params []byte
		if cursor != nil {
			params = append(append([]byte(`{"cursor":`), cursor...), '}')
		}
		msg, err := c.request(ctx, c.era, kind.ListMethod(), params)
		if err != nil {
			return "", err
		}
		if raw := msg.Fault(); raw != nil {
			fault := mcp.ParseError(raw)
			if fault.Code == mcp.CodeMethodNotFound {
				return cut, nil // declared, but not offered
			}
			return "", fault
		}
		if *bytes += len(msg.Raw); *bytes > int(limits.Catalog) {
			return fmt.Sprintf("more than %d bytes (limits.catalog); the rest is left out", limits.Catalog), nil
		}
		list := msg.ResultMember(kind.ListKey())
		for e := range mcp.Elements(list) {
			if len(l.Items[kind]) == limits.Items {
				return fmt.Sprintf("more than %d items (limits.tools); the rest is left out", limits.Items), nil
			}
			item, err := mcp.ParseItem(kind, e.Of(list))
			if err != nil || keys[item.Key] {
				if skipped++; skipped == 1 { // one line per list, not per item
					c.log.Warn("the server lists something that cannot be offered", "kind", kind.String(), "item", item.Key, "err", err)
				}
				cut = fmt.Sprintf("%d items are invalid and left out", skipped)
				continue
			}
			keys[item.Key] = true
			l.Items[kind] = append(l.Items[kind], item)
		}
		if ms, err := strconv.ParseInt(string(msg.ResultMember("ttlMs")), 10, 64); err == nil && ms >= 0 {
			if ttl := min(time.Duration(min(ms, maxTTL.Milliseconds()))*time.Millisecond, maxTTL); page == 0 || ttl < l.TTL[kind] {
				l.TTL[kind] = ttl
			}
		}
		cursor = msg.ResultMember("nextCursor")
		if cursor == nil || string(cursor) == "null" {
			return cut, nil
		}
		if _, err := mcp.Unquote(cursor); err != nil {
			return "a next cursor that is not a string; the rest is left out", nil
		}
		if cursors[string(cursor)] {
			return "the same next cursor twice; the rest is left out", nil
		}
		cursors[string(cursor)] = true
	}
}
