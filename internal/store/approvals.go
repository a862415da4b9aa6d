package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// approvalPrefix begins every id of an approval.
	approvalPrefix = "apr_"
	// maxPending bounds the open questions of one principal: each takes a person's
	// time.
	maxPending = 64
	// maxApprovals bounds a list.
	maxApprovals = 1000
	// maxDetails and maxShownArguments bound what people are shown of a call, in bytes.
	maxDetails        = 8 << 10
	maxShownArguments = 16 << 10
	// approvalAge is how long a closed approval is stored.
	approvalAge = 30 * 24 * time.Hour
)

// States of an approval. It begins as pending; granted and denied are decisions;
// denied, used and expired are final. A denial applies to its call until it expires.
const (
	ApprovalPending = "pending"
	ApprovalGranted = "granted"
	ApprovalDenied  = "denied"
	ApprovalUsed    = "used"
	ApprovalExpired = "expired"
)

// ApprovalKey identifies the call that an approval is for.
type ApprovalKey struct {
	Principal    string // as the gate encodes it; any bytes, at most 1 KiB
	CapabilityID string
	ArgsHash     string // hash of the arguments in their canonical form
}

func (k ApprovalKey) check() error {
	return errors.Join(checkPrincipal(k.Principal), checkName("capability id", k.CapabilityID), checkName("hash of the arguments", k.ArgsHash))
}

// ApprovalText is what people are shown of a call.
type ApprovalText struct {
	Details string // at most 8 KiB, encoded by the caller
	// Arguments are at most 16 KiB. They are deleted when the approval is denied, used
	// or expired.
	Arguments string
}

func (t ApprovalText) check() error {
	return errors.Join(checkText("details", t.Details, maxDetails), checkText("arguments", t.Arguments, maxShownArguments))
}

// ApprovalRecord is an approval question about a call, with its outcome.
type ApprovalRecord struct {
	ID string // "apr_" and 26 characters of lower-case base32
	ApprovalKey
	ApprovalText
	State     string
	AskedAt   time.Time
	ExpiresAt time.Time // of the question while it is pending, then of the grant or the denial
	DecidedBy string
	Reason    string
	DecidedAt time.Time // zero while pending
}

// Approvals stores approval questions and their answers. A grant is for one call with
// the same arguments, once, in all processes that share the store. The caller decides
// who may answer. Every change raises the generation of [TopicApprovals]. The zero
// value returns [ErrClosed]; methods are safe for concurrent use, also by several
// processes.
//
// Times are those of the calling process. Where several share a store, their clocks may
// differ by much less than an approval is valid.
type Approvals struct {
	s *Store
}

// Approvals returns the handle for approvals.
func (s *Store) Approvals() *Approvals { return &Approvals{s} }

// Ask returns the pending question, the unused grant or the denial in force for a call.
// Without any it creates a pending question that expires at the given time; asked
// reports that. It returns [ErrTooMany] when the principal has 64 pending ones.
func (a *Approvals) Ask(ctx context.Context, k ApprovalKey, about ApprovalText, expires time.Time) (r ApprovalRecord, asked bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if err := errors.Join(k.check(), about.check()); err != nil {
		return ApprovalRecord{}, false, fmt.Errorf("ask for approval: %w", err)
	}
	if !expires.After(time.Now()) {
		return ApprovalRecord{}, false, fmt.Errorf("ask for approval until %s: it is over", expires.UTC().Format(time.RFC3339))
	}
	err = a.s.change(ctx, TopicApprovals, func(ctx context.Context, tx *Tx) (bool, error) {
		now := time.Now()
		expired, err := expireApprovals(ctx, tx, now)
		if err != nil {
			return false, err
		}
		var found bool
		r, found, err = approvalInForce(ctx, tx, k, now)
		if asked = err == nil && !found; !asked {
			return expired > 0, err
		}
		r = ApprovalRecord{
			ID: approvalPrefix + strings.ToLower(rand.Text()), ApprovalKey: k, ApprovalText: about, State: ApprovalPending,
			AskedAt: instant(now.UnixNano()), ExpiresAt: instant(expires.UnixNano()),
		}
		return true, insertApproval(ctx, tx, r)
	})
	if err != nil {
		return ApprovalRecord{}, false, err
	}
	return r, asked, nil
}

func insertApproval(ctx context.Context, tx *Tx, r ApprovalRecord) error {
	var pending int
	const count = `SELECT count(*) FROM approvals WHERE principal = ? AND state = 'pending'`
	if err := tx.QueryRow(ctx, count, foreign(r.Principal)).Scan(&pending); err != nil {
		return fmt.Errorf("count the approvals that are asked for: %w", err)
	}
	if pending >= maxPending {
		return fmt.Errorf("ask for approval: %d are pending for this caller: %w", pending, ErrTooMany)
	}
	const q = `INSERT INTO approvals (id, principal, capability_id, args_hash, state, asked_at, expires_at, decided_by, reason, decided_at, closed_at, details, arguments)
		VALUES (?, ?, ?, ?, 'pending', ?, ?, '', '', 0, 0, ?, ?)`
	_, err := tx.Exec(ctx, q, r.ID, foreign(r.Principal), r.CapabilityID, r.ArgsHash, nanos(r.AskedAt), nanos(r.ExpiresAt), r.Details, r.Arguments)
	if err != nil {
		return fmt.Errorf("ask for approval: %w", err)
	}
	return nil
}

// Find returns what [Approvals.Ask] would, without asking; ok is false when there is
// nothing.
func (a *Approvals) Find(ctx context.Context, k ApprovalKey) (r ApprovalRecord, ok bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if err := k.check(); err != nil {
		return ApprovalRecord{}, false, fmt.Errorf("find approval: %w", err)
	}
	err = a.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		now := time.Now()
		r, ok, err = approvalInForce(ctx, tx, k, now)
		if r = r.at(now); r.State == ApprovalExpired {
			r, ok = ApprovalRecord{}, false
		}
		return err
	})
	return r, ok, err
}

// Decide grants or denies the pending question with this id, and returns it afterwards.
// A grant can be used until the given time, and a denial applies to every equal call
// until then. An expired one is closed instead. ok is false, and nothing has changed,
// when there is no such question, or it was decided or has expired; r is then the
// stored record, or zero. If several decide at once, one succeeds.
func (a *Approvals) Decide(ctx context.Context, id string, grant bool, until time.Time, by Change) (r ApprovalRecord, ok bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if err := by.check(); err != nil {
		return ApprovalRecord{}, false, fmt.Errorf("decide on approval %.64q: %w", id, err)
	}
	if grant && !until.After(time.Now()) {
		return ApprovalRecord{}, false, fmt.Errorf("grant approval %.64q until %s: it is over", id, until.UTC().Format(time.RFC3339))
	}
	if !isText(id) {
		return ApprovalRecord{}, false, nil
	}
	err = a.s.change(ctx, TopicApprovals, func(ctx context.Context, tx *Tx) (bool, error) {
		ok = false
		now := time.Now()
		expired, err := expireApprovals(ctx, tx, now)
		if err != nil {
			return false, err
		}
		if until.Before(now) {
			until = now
		}
		q := `UPDATE approvals SET state = 'granted', decided_by = ?, reason = ?, decided_at = ?, expires_at = ? WHERE id = ? AND state = 'pending'`
		args := []any{by.Actor, by.Reason, nanos(now), nanos(until), id}
		if !grant {
			q = `UPDATE approvals SET state = 'denied', arguments = '', decided_by = ?, reason = ?, decided_at = ?, expires_at = ?, closed_at = ? WHERE id = ? AND state = 'pending'`
			args = slices.Insert(args, 4, any(nanos(now)))
		}
		n, err := tx.Exec(ctx, q, args...)
		if err != nil {
			return false, fmt.Errorf("decide on approval %s: %w", id, err)
		}
		ok = n > 0
		if r, _, err = getApproval(ctx, tx, id); err != nil {
			return false, err
		}
		return ok || expired > 0, nil
	})
	if err != nil {
		return ApprovalRecord{}, false, err
	}
	return r, ok, nil
}

// Retract cancels the denial with this id: it no longer applies, and the next call is
// asked about again. ok is false, and nothing has changed, when there is no such denial
// in force; r is then the stored record, or zero.
func (a *Approvals) Retract(ctx context.Context, id string) (r ApprovalRecord, ok bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if !isText(id) {
		return ApprovalRecord{}, false, nil
	}
	err = a.s.change(ctx, TopicApprovals, func(ctx context.Context, tx *Tx) (bool, error) {
		now := nanos(time.Now())
		n, err := tx.Exec(ctx, `UPDATE approvals SET expires_at = ? WHERE id = ? AND state = 'denied' AND expires_at > ?`, now, id, now)
		if err != nil {
			return false, fmt.Errorf("take back the denial %s: %w", id, err)
		}
		ok = n > 0
		r, _, err = getApproval(ctx, tx, id)
		return ok, err
	})
	if err != nil {
		return ApprovalRecord{}, false, err
	}
	return r, ok, nil
}

// Use uses up the grant for a call. ok is true for exactly one caller, and only before
// the grant expires: that caller may make the call. r is the used grant.
func (a *Approvals) Use(ctx context.Context, k ApprovalKey) (r ApprovalRecord, ok bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if err := k.check(); err != nil {
		return ApprovalRecord{}, false, fmt.Errorf("use approval: %w", err)
	}
	err = a.s.change(ctx, TopicApprovals, func(ctx context.Context, tx *Tx) (bool, error) {
		ok = false
		now := time.Now()
		expired, err := expireApprovals(ctx, tx, now)
		if err != nil {
			return false, err
		}
		var found bool
		if r, found, err = liveApproval(ctx, tx, k); err != nil || !found || r.State != ApprovalGranted {
			return expired > 0, err
		}
		// The condition of the statement decides, not what was read before: it holds
		// without the lock.
		n, err := tx.Exec(ctx, `UPDATE approvals SET state = 'used', arguments = '', closed_at = ? WHERE id = ? AND state = 'granted'`, nanos(now), r.ID)
		if err != nil {
			return false, fmt.Errorf("use approval %s: %w", r.ID, err)
		}
		ok, r.State, r.Arguments = n > 0, ApprovalUsed, ""
		return true, nil
	})
	if err != nil || !ok {
		return ApprovalRecord{}, false, err
	}
	return r, true, nil
}

// Expire closes expired approvals and deletes those that were closed 30 days ago. It
// returns how many it closed. [Store.Run] calls it every hour; callers that show
// pending approvals may call it before.
func (a *Approvals) Expire(ctx context.Context) (closed int64, err error) {
	if a.s == nil {
		return 0, ErrClosed
	}
	err = a.s.change(ctx, TopicApprovals, func(ctx context.Context, tx *Tx) (bool, error) {
		closed, err = pruneApprovals(ctx, tx, time.Now())
		return closed > 0, err
	})
	return closed, err
}

// Get returns the approval of id; ok is false when there is none.
func (a *Approvals) Get(ctx context.Context, id string) (r ApprovalRecord, ok bool, err error) {
	if a.s == nil {
		return ApprovalRecord{}, false, ErrClosed
	}
	if !isText(id) {
		return ApprovalRecord{}, false, nil
	}
	err = a.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		r, ok, err = getApproval(ctx, tx, id)
		return err
	})
	return r, ok, err
}

// List returns the latest approvals in a state, or in all if state is empty, newest
// question first, at most limit and 1,000. Expired ones are reported as expired,
// whether or not they were closed.
func (a *Approvals) List(ctx context.Context, state string, limit int) (list []ApprovalRecord, err error) {
	if a.s == nil {
		return nil, ErrClosed
	}
	if !isText(state) {
		return nil, nil
	}
	err = a.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		now := time.Now()
		const q = `SELECT ` + approvalColumns + ` FROM (SELECT ` + approvalColumns + `,
			CASE WHEN state IN ('pending', 'granted') AND expires_at <= ? THEN 'expired' ELSE state END AS state_now FROM approvals) AS a
			WHERE state_now = ? OR ? = '' ORDER BY asked_at DESC, id LIMIT ?`
		rows, err := tx.Query(ctx, q, nanos(now), state, state, min(max(limit, 0), maxApprovals))
		if err != nil {
			return fmt.Errorf("read approvals: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanApproval(rows)
			if err != nil {
				return err
			}
			list = append(list, r.at(now))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Pending returns the number of open questions.
func (a *Approvals) Pending(ctx context.Context) (n int, err error) {
	if a.s == nil {
		return 0, ErrClosed
	}
	err = a.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `SELECT count(*) FROM approvals WHERE state = 'pending' AND expires_at > ?`
		return tx.QueryRow(ctx, q, nanos(time.Now())).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count the approvals that are asked for: %w", err)
	}
	return n, nil
}

// at returns the record as it is at a time, whether or not it was closed.
func (r ApprovalRecord) at(now time.Time) ApprovalRecord {
	if (r.State == ApprovalPending || r.State == ApprovalGranted) && !r.ExpiresAt.After(now) {
		r.State, r.Arguments = ApprovalExpired, ""
	}
	return r
}

const approvalColumns = `id, principal, capability_id, args_hash, state, asked_at, expires_at, decided_by, reason, decided_at, details, arguments`

// expireApprovals closes expired approvals and returns how many it closed.
func expireApprovals(ctx context.Context, tx *Tx, now time.Time) (int64, error) {
	const q = `UPDATE approvals SET state = 'expired', arguments = '', closed_at = ? WHERE state IN ('pending', 'granted') AND expires_at <= ?`
	n, err := tx.Exec(ctx, q, nanos(now), nanos(now))
	if err != nil {
		return 0, fmt.Errorf("close expired approvals: %w", err)
	}
	return n, nil
}

// pruneApprovals closes expired approvals and deletes those that were closed long ago.
func pruneApprovals(ctx context.Context, tx *Tx, now time.Time) (closed int64, err error) {
	if closed, err = expireApprovals(ctx, tx, now); err != nil {
		return 0, err
	}
	const q = `DELETE FROM approvals WHERE state IN ('denied', 'used', 'expired') AND closed_at < ?`
	if _, err := tx.Exec(ctx, q, nanos(now.Add(-approvalAge))); err != nil {
		return 0, fmt.Errorf("forget old approvals: %w", err)
	}
	return closed, nil
}

// liveApproval returns the pending or granted approval of a call. The caller has closed
// expired ones before.
func liveApproval(ctx context.Context, tx *Tx, k ApprovalKey) (ApprovalRecord, bool, error) {
	const q = `SELECT ` + approvalColumns + ` FROM approvals
		WHERE principal = ? AND capability_id = ? AND args_hash = ? AND state IN ('pending', 'granted')`
	return found(scanApproval(tx.QueryRow(ctx, q, foreign(k.Principal), k.CapabilityID, k.ArgsHash)))
}

// approvalInForce returns what applies to a call: the live approval, else the denial
// that has not expired. Denials are few, because people make them and they expire
// within 30 days; they need no index.
func approvalInForce(ctx context.Context, tx *Tx, k ApprovalKey, now time.Time) (ApprovalRecord, bool, error) {
	r, ok, err := liveApproval(ctx, tx, k)
	if ok || err != nil {
		return r, ok, err
	}
	const q = `SELECT ` + approvalColumns + ` FROM approvals
		WHERE principal = ? AND capability_id = ? AND args_hash = ? AND state = 'denied' AND expires_at > ? ORDER BY expires_at DESC, id LIMIT 1`
	return found(scanApproval(tx.QueryRow(ctx, q, foreign(k.Principal), k.CapabilityID, k.ArgsHash, nanos(now))))
}

func getApproval(ctx context.Context, tx *Tx, id string) (ApprovalRecord, bool, error) {
	r, ok, err := found(scanApproval(tx.QueryRow(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE id = ?`, id)))
	return r.at(time.Now()), ok, err
}

// found distinguishes a missing row from an error.
func found[T any](r T, err error) (T, bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	return r, err == nil, err
}

func scanApproval(row scanner) (ApprovalRecord, error) {
	var r ApprovalRecord
	var asked, expires, decided int64
	err := row.Scan(&r.ID, &r.Principal, &r.CapabilityID, &r.ArgsHash, &r.State, &asked, &expires, &r.DecidedBy, &r.Reason, &decided, &r.Details, &r.Arguments)
	if err != nil {
		return ApprovalRecord{}, fmt.Errorf("read approval: %w", err)
	}
	r.AskedAt, r.ExpiresAt, r.DecidedAt = instant(asked), instant(expires), instant(decided)
	return r, nil
}
