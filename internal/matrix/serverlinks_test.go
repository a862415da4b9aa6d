//go:build e2e

package matrix

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxBody bounds one message that a scripted server reads.
const maxBody = 4 << 20

// childVariable makes the test binary a process that only carries bytes: the
// address that it connects to, and the name of the server that it stands for.
// What it reads on stdin goes there, what comes back goes to stdout.
const childVariable = "TOOLGATE_MATRIX_CHILD"

// runChild is the whole process of a stdio server; the script runs in the
// parent, which sees every byte of the pipes.
func runChild(spec string) int {
	address, name, _ := strings.Cut(spec, " ")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := io.WriteString(conn, name+"\n"); err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(os.Stdout, conn)
		os.Exit(0)
	}()
	_, _ = io.Copy(conn, os.Stdin)
	conn.Close()
	return 0
}

// processes takes the connections of the children and serves each as the
// server that it names.
type processes struct {
	listener net.Listener
	servers  map[string]*scripted
	all      sync.WaitGroup

	mu        sync.Mutex
	now, peak int // how many are connected
}

// count notes that one has come or gone.
func (p *processes) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += n
	p.peak = max(p.peak, p.now)
}

// most is how many were connected at once.
func (p *processes) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

func (p *processes) run() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			p.all.Wait()
			return
		}
		p.all.Go(func() {
			p.count(+1)
			defer p.count(-1)
			defer conn.Close()
			in := bufio.NewReaderSize(conn, 64<<10)
			name, err := in.ReadString('\n')
			if s := p.servers[strings.TrimSpace(name)]; err == nil && s != nil {
				s.serveLines(in, conn)
			}
		})
	}
}

// serveLines serves one process over its pipes, to the end of its input.
func (s *scripted) serveLines(in *bufio.Reader, out io.Writer) {
	var writing sync.Mutex
	send := func(raw []byte) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = out.Write(append(raw, '\n'))
	}
	p := s.connect(send)
	var all sync.WaitGroup
	defer all.Wait()
	defer p.gone()
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if in := p.receive(line[:len(line)-1], nil, send); in != nil {
			all.Go(func() {
				if raw := in.serve(); raw != nil {
					send(raw)
				}
			})
		}
	}
}

// sseServer is the HTTP+SSE transport (2024-11-05 basic/transports).
type sseServer struct {
	s *scripted

	mu    sync.Mutex
	next  int
	peers map[string]*ssePeer
}

type ssePeer struct {
	peer *peer
	out  *eventStream
}

func (h *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		h.stream(w, r)
	case r.URL.Path == "/message" && r.Method == http.MethodPost:
		h.message(w, r)
	default:
		http.Error(w, "not here", http.StatusNotFound)
	}
}

func (h *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	out := &eventStream{}
	p := &ssePeer{out: out, peer: h.s.connect(out.send)}
	h.mu.Lock()
	h.next++
	id := fmt.Sprint(h.next)
	h.peers[id] = p
	h.mu.Unlock()
	defer p.peer.gone()
	out.open(w, "event: endpoint\ndata: /message?id="+id+"\n\n")
	defer out.close()
	<-r.Context().Done()
}

func (h *sseServer) message(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	p := h.peers[r.URL.Query().Get("id")]
	h.mu.Unlock()
	if p == nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	raw, ok := readMessage(p.peer, w, r)
	if !ok {
		return
	}
	in := p.peer.receive(raw, nil, p.out.send)
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	if in != nil {
		if raw := in.serve(); raw != nil {
			p.out.send(raw)
		}
	}
}

// readMessage reads the message of a POST and holds its headers to what every
// HTTP transport wants.
func readMessage(p *peer, w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, false
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		p.broken("a POST of the content type %q", r.Header.Get("Content-Type"))
	}
	return raw, true
}

// accepts tells whether a request takes all the content types.
func accepts(r *http.Request, kinds ...string) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	for _, kind := range kinds {
		if !strings.Contains(accept, kind) {
			return false
		}
	}
	return true
}

// jsonFault answers with the refusal of a transport.
func jsonFault(w http.ResponseWriter, status int, id mcp.ID, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mcp.AppendFault(nil, id, mcp.Errorf(code, "%s", why)))
}
