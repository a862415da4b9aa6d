package store

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// connectTimeout bounds one attempt to connect, when the URL does not.
	connectTimeout = 5 * time.Second
	// connLifetime and connIdleTime renew connections, to follow a change of the
	// server's address.
	connLifetime = 30 * time.Minute
	connIdleTime = 5 * time.Minute
	// maxPostgresBatch keeps the savepoints of one transaction below the number that
	// the server keeps in memory (64).
	maxPostgresBatch = 48
)

// errURL does not show the URL: when it cannot be parsed, the password in it cannot be
// located.
var errURL = errors.New("open store: the address of PostgreSQL cannot be read: " +
	"write postgres://user:password@host:5432/database, with every character of the password that is not a letter, a digit or one of -._~ as %XX; " +
	"or leave the password out and set PGPASSWORD (toolgate.store)")

// parsePostgres returns the connection settings of a URL. Settings that the URL leaves
// out get our defaults.
func parsePostgres(address string, o Options) (*pgx.ConnConfig, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return nil, errURL
	}
	// With an unescaped @ or / in the password, a part of it would pass for a host or a
	// database, and those are shown.
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if strings.Count(authority, "@") > 1 || strings.Contains(rest[len(authority):], "@") {
		return nil, errURL
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errURL
	}
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = connectTimeout
	}
	params := map[string]string{
		"application_name": "toolgate",
		// Limits on the server's side: it learns late, or never, that a gateway has
		// given up or is gone.
		"statement_timeout":                   strconv.FormatInt(commitTimeout.Milliseconds(), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt(2*commitTimeout.Milliseconds(), 10),
	}
	if o.Durable {
		params["synchronous_commit"] = "on"
	}
	maps.Copy(params, config.RuntimeParams)
	if o.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	config.RuntimeParams = params
	return config, nil
}

// shown is the address for people, without password and parameters.
func shown(config *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", Path: "/" + config.Database}
	if config.User != "" {
		u.User = url.User(config.User)
	}
	if strings.HasPrefix(config.Host, "/") { // the folder of a Unix socket
		u.RawQuery = url.Values{"host": {config.Host}, "port": {strconv.Itoa(int(config.Port))}}.Encode()
	} else {
		u.Host = net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	}
	return u.String()
}

// postgresPool returns a pool of at most conns connections. It connects at the first
// use.
func postgresPool(config *pgx.ConnConfig, conns int) *sql.DB {
	db := stdlib.OpenDB(*config.Copy())
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxLifetime(connLifetime)
	db.SetConnMaxIdleTime(connIdleTime)
	return db
}

// openPostgres opens a store that several processes share.
func (s *Store) openPostgres(ctx context.Context, o Options) error {
	config, err := parsePostgres(o.URL, o)
	if err != nil {
		return err
	}
	s.path, s.dialect = shown(config), postgresDialect{}
	// A closure hides the configuration, so that printing a Store cannot show the
	// password.
	s.listen = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	s.read = postgresPool(config, readers)
	if !o.ReadOnly {
		s.write = postgresPool(config, 1)
		// Each statement then sees what was committed before it, see [Budgets.Apply].
		config.RuntimeParams["default_transaction_isolation"] = "read committed"
		s.direct = postgresPool(config, 1)
	}
	err = s.begin(ctx, o.ReadOnly)
	if err != nil && o.Await && !o.ReadOnly && ctx.Err() == nil && unreachable(err) {
		s.absent.reason.Store(&err)
		return nil
	}
	return err
}

// begin makes sure that the database can be used.
func (s *Store) begin(ctx context.Context, readOnly bool) error {
	if err := s.requireServer(ctx); err != nil {
		return err
	}
	if readOnly {
		return requireCurrent(ctx, s.read, s.dialect, s.path)
	}
	return migrate(ctx, s.write, s.dialect, s.path, s.log)
}

// requireServer makes the first connection. It refuses a database with the wrong
// encoding, or without a schema.
func (s *Store) requireServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return explain(s.path, "open store", err)
	}
	defer conn.Close()
	var encoding string
	var schema sql.NullString
	const q = `SELECT current_setting('server_encoding'), current_schema()`
	if err := conn.QueryRowContext(ctx, q).Scan(&encoding, &schema); err != nil {
		return explain(s.path, "open store", err)
	}
	switch {
	case encoding != "UTF8":
		return fmt.Errorf("open store %s: the database has the encoding %s: make one with ENCODING 'UTF8'", s.path, encoding)
	case !schema.Valid:
		return fmt.Errorf("open store %s: its search_path names no schema that exists: create one, or set search_path in the address", s.path)
	}
	return conn.Raw(func(driver any) error {
		if c, ok := driver.(*stdlib.Conn); ok && inTheClear(c.Conn().PgConn().Conn()) {
			s.log.Warn("the connection to PostgreSQL is not encrypted: set sslmode=verify-full in the address of the store",
				slog.String("store", s.path))
		}
		return nil
	})
}

// inTheClear reports whether others on the network could read conn.
func inTheClear(conn net.Conn) bool {
	if _, ok := conn.(*tls.Conn); ok {
		return false
	}
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !addr.IP.IsLoopback()
}

// postgresDialect is PostgreSQL, shared by several processes.
type postgresDialect struct{}

func (postgresDialect) folder() string { return "postgres" }

func (postgresDialect) bind(query string, args []any) (string, []any) {
	var bound []any
	for i, arg := range args {
		text, ok := arg.(foreign)
		if !ok {
			continue
		}
		if bound == nil { // do not modify the caller's slice
			bound = append(make([]any, 0, len(args)), args...)
		}
		bound[i] = []byte(text)
	}
	if bound == nil {
		bound = args
	}
	return numbered(query), bound
}

func (postgresDialect) reading() *sql.TxOptions {
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

// Each statement of a writing transaction sees what was committed before it, whatever
// the database's default. So what is read after a lock is what its last holder wrote.
func (postgresDialect) writing() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func (postgresDialect) version(ctx context.Context, q querier) (int, error) {
	var marked bool
	// Not to_regclass, which may answer from before the wait for a lock.
	const find = `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND c.relname = 'toolgate_schema')`
	if err := q.QueryRowContext(ctx, find).Scan(&marked); err != nil || !marked {
		return 0, err
	}
	var version int
	err := q.QueryRowContext(ctx, `SELECT version FROM toolgate_schema`).Scan(&version)
	return version, err
}

func (postgresDialect) empty(ctx context.Context, q querier) (empty bool, err error) {
	const find = `SELECT NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema())`
	err = q.QueryRowContext(ctx, find).Scan(&empty)
	return empty, err
}

func (postgresDialect) whole(list []migration) string {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = m.sql
	}
	return strings.Join(texts, "\n")
}

func (postgresDialect) record(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, `UPDATE toolgate_schema SET version = $1`, version)
	return err
}

func (postgresDialect) lock(ctx context.Context, tx session, name string) error {
	// Two schemas of one database are two stores.
	const q = `SELECT pg_advisory_xact_lock($1, hashtext(current_schema() || ':' || $2))`
	_, err := tx.ExecContext(ctx, q, applicationID, name)
	return err
}

func (postgresDialect) notify(ctx context.Context, tx session, topics []string) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, strings.Join(topics, ","))
	return err
}

func (postgresDialect) maxBatch() int { return maxPostgresBatch }
