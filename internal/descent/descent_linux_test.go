package descent_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/testwait"
)

// The test program is the processes of these tests as well: a child that asks, and
// one that leaves its descent as far as it can before it does.
func init() {
	if address := os.Getenv("DESCENT_ASK"); address != "" {
		unix.Exit(ask(address)) // without the second that the race detector waits
	}
}

// ask connects as many forks deep as it is told and prints what it is answered.
func ask(address string) int {
	forks, _ := strconv.Atoi(os.Getenv("DESCENT_FORKS"))
	if forks > 0 {
		self, err := os.Executable()
		if err != nil {
			return 2
		}
		// A session of its own, whose parent does not wait.
		cmd := exec.Command(self)
		cmd.Env = []string{"DESCENT_ASK=" + address, "DESCENT_FORKS=" + strconv.Itoa(forks-1), "DESCENT_PARENT=" + strconv.Itoa(os.Getpid())}
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &unix.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return 2
		}
		return 0
	}
	// An orphan asks only when it is one.
	parent, _ := strconv.Atoi(os.Getenv("DESCENT_PARENT"))
	testwait.Within(10*time.Second, func() bool { return parent == 0 || os.Getppid() != parent })
	network, path, _ := strings.Cut(address, ":")
	conn, err := net.Dial(network, path)
	if err != nil {
		fmt.Println("dial", err)
		return 1
	}
	defer conn.Close()
	request := "GET /v1/status HTTP/1.1\r\nHost: toolgate\r\nConnection: close\r\n\r\n"
	if tcp, ok := conn.(*net.TCPConn); ok && os.Getenv("DESCENT_HIDE") != "" {
		answer, err := askHidden(tcp, request)
		fmt.Printf("%s %v\n", answer, err)
		return 0
	}
	fmt.Fprint(conn, request)
	if os.Getenv("DESCENT_LEAVE") != "" {
		return 0
	}
	answer, err := io.ReadAll(conn)
	fmt.Printf("%s %v\n", answer, err)
	return 0
}

// askHidden sends a request on a connection that no process has open until the
// answer is there: it is in a message that nobody has received.
func askHidden(conn *net.TCPConn, request string) ([]byte, error) {
	f, err := conn.File()
	if err != nil {
		return nil, err
	}
	conn.Close()
	fd := int(f.Fd())
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, err
	}
	answered, err := unix.EpollCreate1(0)
	if err != nil {
		return nil, err
	}
	if err := unix.EpollCtl(answered, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return nil, err
	}
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0); err != nil {
		return nil, err
	}
	if _, err := unix.Write(fd, []byte(request)); err != nil {
		return nil, err
	}
	f.Close()
	for { // until there is something to read, for 10 s at most
		n, err := unix.EpollWait(answered, make([]unix.EpollEvent, 1), 10_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, fmt.Errorf("no answer: %w", err)
		}
		break
	}
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), rights, 0)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	back := os.NewFile(uintptr(fds[0]), "the connection")
	defer back.Close()
	return io.ReadAll(back)
}

// asked starts a process that asks and returns what it prints.
func asked(t *testing.T, address string, forks int, more ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{"DESCENT_ASK=" + address, "DESCENT_FORKS=" + strconv.Itoa(forks)}, more...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&out, r); err != nil { // ends with the last that has it open
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return out.String()
}

// serving starts a server that knows its connections.
func serving(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnContext = descent.ConnContext
	s.Start()
	return s
}

// A server that does not know its connections serves nobody, and one that does looks
// at each connection once.
func TestPeersAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	answer := admin.RefuseDescendants(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	blind := httptest.NewServer(answer)
	defer blind.Close()
	if resp, err := blind.Client().Get(blind.URL); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	over := serving(answer)
	defer over.Close()
	got := func() int {
		t.Helper()
		resp, err := over.Client().Get(over.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if status := got(); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	defer descent.HoldLooks()() // who looks now waits
	for range 5 {
		if status := got(); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
}

// Descendants of this process are turned away from the socket and from an address,
// however they have forked, and this process itself is not.
func TestDescendantsAreTurnedAway(t *testing.T) {
	if err := descent.Adopt(); err != nil {
		t.Fatal(err)
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // the path of t.TempDir is too long for a socket on some systems
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s.sock")
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	socket := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	go func() { _ = socket.Serve(l) }() // ends with Close
	defer socket.Close()
	over := serving(admin.RefuseDescendants(answer))
	defer over.Close()

	for _, address := range []string{"unix:" + path, "tcp:" + over.Listener.Addr().String()} {
		for _, forks := range []int{0, 1, 2, 3} {
			if got := asked(t, address, forks); !strings.Contains(got, "403 Forbidden") || !strings.Contains(got, descent.Reason) || strings.Contains(got, "served") {
				t.Errorf("%s, %d forks: %s", address, forks, got)
			}
		}
		network, where, _ := strings.Cut(address, ":")
		conn, err := net.Dial(network, where)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: toolgate\r\nConnection: close\r\n\r\n")
		if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), "served") {
			t.Errorf("%s: this process: %s, %v", address, text, err)
		}
		conn.Close()
	}
	// What has ended is not kept, as soon as all threads of it have.
	seen := descent.Sweep(nil)
	if !testwait.Within(20*time.Second, func() bool {
		seen = descent.Sweep(descent.Sweep(seen))
		return len(seen) == 0
	}) {
		t.Fatalf("processes %v are dead and still there", seen)
	}
}

// A descendant that puts its connection where /proc shows it in nobody's hands is
// turned away like the others.
func TestHiddenDescendantsAreTurnedAway(t *testing.T) {
	t.Parallel()
	over := serving(admin.RefuseDescendants(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })))
	defer over.Close()
	for range 5 {
		if got := asked(t, "tcp:"+over.Listener.Addr().String(), 0, "DESCENT_HIDE=1"); !strings.Contains(got, "403 Forbidden") || strings.Contains(got, "served") {
			t.Errorf("hidden: %s", got)
		}
	}
}

// One that does not stay for the answer is none that came from another machine,
// whichever of this machine's addresses it has.
func TestDescendantsThatLeaveAreTurnedAway(t *testing.T) {
	t.Parallel()
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("%v, %v", own, err)
	}
	for _, o := range own {
		prefix := netip.MustParsePrefix(o.String())
		if !prefix.Addr().Is4() {
			continue
		}
		turned := make(chan bool, 1)
		l, err := net.Listen("tcp", netip.AddrPortFrom(prefix.Addr(), 0).String())
		if err != nil {
			t.Fatal(err)
		}
		over := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the other end is closed
			turned <- descent.OfRequest(r.Context())
		}))
		over.Listener.Close()
		over.Listener, over.Config.ConnContext = l, descent.ConnContext
		over.Start()
		asked(t, "tcp:"+l.Addr().String(), 0, "DESCENT_LEAVE=1")
		select {
		case got := <-turned:
			if !got {
				t.Errorf("%v: one that has left is served", prefix)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%v: nobody has asked", prefix)
		}
		over.Close()
	}
}
