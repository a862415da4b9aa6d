package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testserver"
)

// startTime bounds the start of a server, and its end.
const startTime = 30 * time.Second

// Server is a Redis server on the loopback interface with a folder of its own.
type Server struct {
	dir  string
	port int
	args []string
	run  *testserver.Process
}

// Start starts a server that ends with the test. The arguments are settings such
// as "--maxmemory", "4mb". Where Redis is not installed the test is skipped,
// unless CI is set: there it is a failure.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("Redis is not installed (on Debian: apt-get install redis-server)")
		}
		t.Fatal(err)
	}
	s := &Server{dir: t.TempDir(), args: args}
	t.Cleanup(func() { s.end(t) })
	s.Restart(t)
	return s
}

// Address is how clients reach the server.
func (s *Server) Address() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

// Port is where it listens.
func (s *Server) Port() int { return s.port }

// Kill ends the server as a crash does.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.end(t)
}

// Restart starts the server, at the port that it had before.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	var err error
	for range 5 { // another one may have taken the port in between
		if err = s.start(t); err == nil {
			return
		}
		s.end(t)
	}
	t.Fatal(err)
}

func (s *Server) start(t testing.TB) error {
	t.Helper()
	port := s.port
	if port == 0 {
		_, free, err := net.SplitHostPort(testport.Address(t))
		if err != nil {
			return err
		}
		if port, err = strconv.Atoi(free); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir, "--save", "", "--appendonly", "yes",
	}, s.args...)
	run := exec.CommandContext(context.Background(), "redis-server", args...) // ended by end
	run.Stdout, run.Stderr = log, log
	if s.run, err = testserver.Start(run, syscall.SIGKILL); err != nil {
		s.run = nil
		return err
	}
	deadline := time.Now().Add(startTime)
	for time.Now().Before(deadline) {
		conn, err := dial(t, port)
		if err == nil {
			answer, err := ask(conn, "PING")
			conn.Close()
			if err == nil && answer == "+PONG" {
				s.port = port
				return nil
			}
		}
		select {
		case <-t.Context().Done():
			return t.Context().Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	said, _ := os.ReadFile(log.Name())
	return fmt.Errorf("the server does not start:\n%s", said)
}

// dial connects to a server.
func dial(t testing.TB, port int) (net.Conn, error) {
	return (&net.Dialer{Timeout: startTime}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// Do sends a command, as people write one, and returns the first line of
// the answer, as in "+OK".
func (s *Server) Do(t testing.TB, command string) string {
	t.Helper()
	conn, err := dial(t, s.port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := ask(conn, command)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Keys returns the keys of the first database.
func (s *Server) Keys(t testing.TB) []string {
	t.Helper()
	conn, err := dial(t, s.port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(startTime)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("KEYS *\r\n")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(conn)
	in.Scan()
	n, err := strconv.Atoi(strings.TrimPrefix(in.Text(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 0, n)
	for len(keys) < n && in.Scan() { // the length
		in.Scan()
		keys = append(keys, in.Text())
	}
	return keys
}

// ask sends one command (inline, as the protocol has it for people).
func ask(conn net.Conn, command string) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(startTime)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (s *Server) end(t testing.TB) {
	t.Helper()
	if s.run == nil {
		return
	}
	run := s.run
	s.run = nil
	if err := run.End(os.Kill, startTime); err != nil {
		t.Error(err)
	}
}
