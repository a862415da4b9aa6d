package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolgate/toolgate/internal/failure"
)

// PostgreSQL error codes (appendix A of its manual) that we handle.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateFull          = "53300" // of connections
)

// postgresStates are the codes that a person can do something about.
var postgresStates = map[string]string{
	"28P01": refused,
	"28000": refused,
	"3D000": "the database does not exist: create it (createdb), with the user as its owner",
	"3F000": "its search_path names no schema that exists: create one, or set search_path in the address",
	"42501": "the user lacks a permission: make it the owner of the database, or grant it USAGE and CREATE on the schema and all rights on the tables in it",
	"42P01": "a table of the store is not there: another program has changed the database; restore a backup",
	"42P07": "it already has a table of that name which toolgate did not make: give toolgate a database or a schema of its own (toolgate.store)",
	"25006": "the server does not accept writes, as a standby does not: name the primary, or all servers with target_session_attrs=read-write",
	"53100": "the server's disk is full: make room on it",
	"53300": "the server has no connection left: raise its max_connections (a toolgate uses up to 7)",
	"55P03": busyServer,
	"57014": busyServer,
	"57P01": stopped,
	"57P02": stopped,
	"57P03": "the server is starting or stopping: nothing to do, the store is used again as soon as it answers",
}

const (
	refused    = "the server refuses the user or the password: check both, and pg_hba.conf on the server (a password can also come from PGPASSWORD)"
	stopped    = "the server was stopped: nothing to do when it was restarted, the store is used again as soon as it answers"
	busyServer = "the server did not answer in time: look for what keeps it busy or locked"
)

// postgresAdvice returns what a person can do about err, or nothing.
func postgresAdvice(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return postgresStates[pe.Code]
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		what := "cannot connect"
		if why := failure.Cause(err); why != "" {
			what += ": " + why
		}
		return what + "; check that the server runs, and the host, port and sslmode in the address"
	}
	if lost(err) {
		return "the connection to the server was lost; nothing to do when it was restarted, the store is used again as soon as it answers"
	}
	return ""
}

// lost reports whether a connection to PostgreSQL broke, or the server closed it.
func lost(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		// 57P01 to 57P03: the server stops, crashed or starts.
		return strings.HasPrefix(pe.Code, "08") || strings.HasPrefix(pe.Code, "57P0")
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// unreachable reports whether no server answered, or one that is starting. Such errors
// pass by themselves; a server's refusal does not.
func unreachable(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return lost(pe) || pe.Code == stateFull
	}
	// Certificate errors of either side do not pass.
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op != "remote error" && op.Op != "local error"
	}
	_, name := errors.AsType[*net.DNSError](err)
	return name || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// failsWhole is false: a commit after a failed statement is a rollback.
func (postgresDialect) failsWhole() bool { return false }

func (postgresDialect) retryable(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && (pe.Code == stateSerialization || pe.Code == stateDeadlock) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return false // the server is away: report it at once
	}
	return lost(err)
}

// uncertain is true for every error except the server's own refusal. It does not trust
// the driver's "safe to retry", which includes a connection that broke after a
// statement without parameters was sent, such as a commit.
func (postgresDialect) uncertain(err error) bool {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return lost(err)
	}
	return !errors.Is(err, pgx.ErrTxCommitRollback) && !errors.Is(err, sql.ErrTxDone)
}
