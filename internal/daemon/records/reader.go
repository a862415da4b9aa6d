package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/store"
)

// maxAuditCall bounds the lines that are shown of one call.
const maxAuditCall = 1000

// anchorTime bounds the reading of anchors.
const anchorTime = 5 * time.Second

// errNoAudit is of a gateway that keeps no records.
var errNoAudit = errors.New("this gateway keeps no audit log")

// readAudit calls fn with the entries of the log, or of one call if an id is named, until ctx
// ends. One question is answered at a time, because each reads the whole log; others wait for
// their turn.
func (from Reader) readAudit(ctx context.Context, found *admin.AuditFound, call string, fn func(*audit.Record)) error {
	return from.readSince(ctx, time.Time{}, found, call, fn)
}

// readSince is readAudit of the files that were written since a time.
func (from Reader) readSince(ctx context.Context, since time.Time, found *admin.AuditFound, call string, fn func(*audit.Record)) error {
	if from.r.audit.Path() == "" {
		return errNoAudit
	}
	done, err := from.r.reading.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	files, err := audit.Files(from.r.audit.Path())
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.ModTime().Before(since)
	})
	err = audit.ReadCall(ctx, files, call, func(r *audit.Record) error {
		fn(r)
		return nil
	})
	if unreadable, ok := errors.AsType[*audit.UnreadableError](err); ok {
		found.Unreadable = unreadable.Error()
		return nil
	}
	return err
}

// Since calls fn with the entries of the log since a time, the earliest first, until ctx ends.
// Files that were written before are not opened, and an entry before it may come along with
// others. unreadable says that lines were skipped.
func (from Reader) Since(ctx context.Context, since time.Time, fn func(*audit.Record)) (unreadable string, err error) {
	var found admin.AuditFound
	err = from.readSince(ctx, since, &found, "", fn)
	return found.Unreadable, err
}

// SearchAudit implements [admin.AuditReader].
func (from Reader) SearchAudit(ctx context.Context, query string, limit int) (found admin.AuditFound, err error) {
	q, err := audit.ParseQuery(query, time.Now())
	if err != nil {
		return found, fmt.Errorf("%w: %w", admin.ErrAuditQuery, err)
	}
	found.Entries = []audit.Record{}
	err = from.readAudit(ctx, &found, "", func(r *audit.Record) {
		if r.Event == audit.EventBegin || !q.Matches(r) {
			return
		}
		found.Found++
		found.Entries = Latest(append(found.Entries, *r), limit)
	})
	found.Entries = found.Entries[max(0, len(found.Entries)-limit):]
	return found, err
}

// ShowAudit implements [admin.AuditReader].
func (from Reader) ShowAudit(ctx context.Context, id string) (found admin.AuditFound, err error) {
	if id == "" {
		return found, admin.ErrNoCall
	}
	err = from.readAudit(ctx, &found, id, func(r *audit.Record) {
		if r.CallID != id {
			return
		}
		if found.Found++; found.Found <= maxAuditCall {
			found.Entries = append(found.Entries, *r)
		}
	})
	if err == nil && found.Found == 0 {
		err = admin.ErrNoCall
	}
	return found, err
}

// VerifyAudit implements [admin.AuditReader].
func (from Reader) VerifyAudit(ctx context.Context) (*audit.Report, error) {
	if from.r.audit.Path() == "" {
		return nil, errNoAudit
	}
	done, err := from.r.reading.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	keys, err := Keys(from.r.config(), from.r.state)
	if err != nil {
		return nil, err
	}
	replica, err := from.r.state.Replica()
	if err != nil {
		return nil, err
	}
	return VerifyAnchored(ctx, from.r.store.Anchors(), from.r.audit.Path(), keys, replica)
}

// VerifyAnchored verifies an audit log against the anchors of a store.
func VerifyAnchored(ctx context.Context, anchors *store.Anchors, path string, keys []audit.Key, replica string) (*audit.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, anchorTime)
	defer cancel()
	own, err := anchors.List(ctx, replica)
	if err != nil {
		return nil, err
	}
	others, err := anchors.Others(ctx, replica)
	if err != nil {
		return nil, err
	}
	return audit.VerifyLog(path, keys, heads(own), heads(others))
}
