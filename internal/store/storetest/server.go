package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/internal/testserver"
)

// startTimeout bounds the start and the end of a server.
const startTimeout = 60 * time.Second

// Superuser is the owner of the server; it needs no password.
const Superuser = "toolgate"

// Server is a PostgreSQL server for tests. The zero value starts with the first
// statement or database. Stop must be called at the end. Its methods are safe for
// concurrent use, except that Stop and Kill must not run beside others.
type Server struct {
	mu   sync.Mutex
	bin  string // folder of the binaries
	root string // folder of everything that the server keeps
	run  *testserver.Process
}

// StartPostgres starts a server that ends with the test. A test that kills or stops its
// server needs its own; others share one [Server].
func StartPostgres(t testing.TB) *Server {
	t.Helper()
	s := new(Server)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.require(t)
	return s
}

// URL creates an empty database, and returns its address for [Superuser].
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.Address(Superuser, "", name)
}

// SchemaURL creates an empty schema in a shared database, and returns its address for
// [Superuser]. It is much faster than [Server.URL].
func (s *Server) SchemaURL(t testing.TB) string {
	t.Helper()
	name := "s" + strings.ToLower(rand.Text())
	s.Exec(t, "postgres", "CREATE SCHEMA "+name)
	return s.Address(Superuser, "", "postgres") + "&search_path=" + name
}

// Address returns the address of a database for a user.
func (s *Server) Address(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	u.RawQuery = url.Values{"host": {s.root}}.Encode()
	return u.String()
}

// Exec runs statements as [Superuser].
func (s *Server) Exec(t testing.TB, database, statements string) {
	t.Helper()
	s.require(t)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.Address(Superuser, "", database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatal(err)
	}
}

// require starts the server unless it runs.
func (s *Server) require(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return
	}
	if s.bin == "" {
		bin, err := binaries()
		if err != nil && os.Getenv("CI") == "" {
			t.Skip(err) // an error where everything must be tested
		}
		if err != nil {
			t.Fatal(err)
		}
		s.bin = bin
	}
	if s.root == "" {
		if err := s.create(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// binaries returns the folder of the server's binaries.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	// Debian keeps them out of PATH, in one folder per version.
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: its initdb is not in PATH (on Debian: apt-get install postgresql)")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// command returns a command of the server, run as a user that it accepts.
func (s *Server) command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.root
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	return cmd, confine(cmd)
}

// create creates the folder of the server and its files. The folder is not inside the
// test's: a socket path has at most about 100 bytes, and the server may run as another
// user. It is in memory if there is room, because a database has hundreds of files,
// which are slow on a disk.
func (s *Server) create() error {
	root, err := os.MkdirTemp(memory(), "storetest")
	if err != nil {
		return err
	}
	s.root = root
	if err := hand(root); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	initdb, err := s.command(ctx, "initdb", "-D", filepath.Join(root, "data"), "-U", Superuser,
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1")
	if err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// Members of the group "secret" need a password.
	rules := "local all +secret scram-sha-256\nlocal all all trust\n"
	return os.WriteFile(filepath.Join(root, "data", "pg_hba.conf"), []byte("local postgres toolgate trust\n"+rules), 0o600)
}

// start starts the server and waits until it answers.
func (s *Server) start() error {
	// Tests do not need durability.
	run, err := s.command(context.Background(), "postgres", "-D", filepath.Join(s.root, "data"), "-k", s.root,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200", "-c", "deadlock_timeout=100ms")
	if err != nil {
		return err
	}
	// A file and not a pipe: its processes may outlive each other.
	log, err := os.Create(filepath.Join(s.root, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	run.Stdout, run.Stderr = log, log
	if s.run, err = testserver.Start(run, crash); err != nil {
		s.run = nil
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.Address(Superuser, "", "postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			ended := s.end(kill)
			said, unread := os.ReadFile(log.Name())
			return fmt.Errorf("the server does not start: %w\n%s", errors.Join(err, ended, unread), said)
		case <-tick.C:
		}
	}
}

// Kill ends the server like a crash: nothing is flushed, and no client is told before.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.end(crash); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again after [Server.Kill], with its committed data.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.require(t)
}

// Stop ends the server and removes its files. Stopping one that was not started is no
// error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.end(crash)
	if s.root != "" {
		err = errors.Join(err, os.RemoveAll(s.root))
		s.root = ""
	}
	return err
}

// end signals the server and waits for its end.
func (s *Server) end(signal os.Signal) error {
	if s.run == nil {
		return nil
	}
	run := s.run
	s.run = nil
	if err := run.End(signal, startTimeout); err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}
