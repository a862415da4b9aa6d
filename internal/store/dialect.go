package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// dialect is what differs between the databases. Everything else is written once:
// statements are SQL that both understand, with a question mark for each argument.
type dialect interface {
	// folder is the folder of the migrations among the embedded files.
	folder() string
	// bind converts a statement and its arguments to the form of the driver.
	bind(query string, args []any) (string, []any)
	// reading returns the options of a transaction that sees one state of the database
	// and cannot change it; writing those of one that changes it.
	reading() *sql.TxOptions
	writing() *sql.TxOptions
	// version returns the schema version of the database, 0 for an empty one, and
	// errForeign for a database of another program.
	version(ctx context.Context, q querier) (int, error)
	// empty reports whether nothing is in the database.
	empty(ctx context.Context, q querier) (bool, error)
	// whole returns the statements that make in an empty database what all migrations
	// make there.
	whole(list []migration) string
	// record stores the version of the schema.
	record(ctx context.Context, tx *sql.Tx, version int) error
	// lock excludes other writers that lock the same name, in all processes that share
	// the database, until tx ends.
	lock(ctx context.Context, tx session, name string) error
	// notify tells other processes at the commit of tx that topics have changed.
	notify(ctx context.Context, tx session, topics []string) error
	// maxBatch is how many writes one transaction commits at most.
	maxBatch() int
	// failsWhole reports whether a write that is alone in its transaction needs no
	// savepoint. The transaction is then rolled back with it, and may be committed if
	// the write went on after a failed statement.
	failsWhole() bool
	// retryable reports whether a transaction failed for a reason that is probably gone
	// at the next try, and nothing of it was committed.
	retryable(err error) bool
	// uncertain reports whether a commit that failed with err may have happened.
	uncertain(err error) bool
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// foreign is a string from outside that is stored byte for byte. SQLite stores any
// bytes as TEXT. PostgreSQL's TEXT refuses NUL and invalid UTF-8, so its column is
// BYTEA.
type foreign string

// numbered replaces the question marks of query by $1, $2 and so on, except in quoted
// text and comments.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	for i := 0; i < len(query); {
		if end := skip(query[i:]); end > 0 {
			b.WriteString(query[i : i+end])
			i += end
			continue
		}
		if query[i] == '?' {
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		} else {
			b.WriteByte(query[i])
		}
		i++
	}
	return b.String()
}

// skip returns the length of the quoted text or comment that s begins with, or 0. A
// doubled quote inside quoted text reads as two adjacent texts, which is equivalent.
func skip(s string) int {
	until := ""
	switch {
	case s[0] == '\'' || s[0] == '"':
		until = s[:1]
	case strings.HasPrefix(s, "--"):
		until = "\n"
	case strings.HasPrefix(s, "/*"):
		if i := strings.Index(s[2:], "*/"); i >= 0 {
			return i + 4
		}
		return len(s)
	default:
		return 0
	}
	if i := strings.Index(s[1:], until); i >= 0 {
		return i + 1 + len(until)
	}
	return len(s)
}
