package http1_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/proxy/limit"
)

// TestMany lets clients of all manners use a server at once, and ends it meanwhile. An answer is
// to the request that was sent, and nothing is left.
func TestMany(t *testing.T) {
	t.Parallel()
	const clients, rounds = 24, 12
	s, l := listen(t, plainServer(limit.WithoutUnread(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "wait": // longer than a watch needs to begin
			select {
			case <-r.Context().Done():
			case <-time.After(12 * time.Millisecond):
			}
		case "refuse":
			w.WriteHeader(http.StatusForbidden)
			return
		case "panic":
			panic(http.ErrAbortHandler)
		}
		echo(w, r)
	}))))
	var all sync.WaitGroup
	half := make(chan struct{}, clients)
	for i := range clients {
		all.Go(func() {
			defer func() { half <- struct{}{} }()
			pick := rand.New(rand.NewPCG(uint64(i), 1))
			for round := range rounds {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					return // the server has ended
				}
				if err := manner(c, pick, fmt.Sprint("/", i, "-", round)); err != nil {
					t.Error(err)
				}
				c.Close()
				if round == rounds/2 {
					half <- struct{}{}
				}
			}
		})
	}
	for range clients {
		within(t, "clients have done half of it", half)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// manner sends some requests in one of many ways, and reads what comes. The error is an answer
// to another request.
func manner(c net.Conn, pick *rand.Rand, path string) error {
	_ = c.SetDeadline(time.Now().Add(patience))
	methods, dos := []string{"POST", "POST", "POST", "PUT"}, []string{"", "", "wait", "wait", "refuse", "panic"}
	var text string
	var want []string
	for i := range 1 + pick.IntN(4) {
		path, body := fmt.Sprint(path, "-", i), strings.Repeat("b", pick.IntN(6000))
		text += fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nDo: %s\r\nContent-Length: %d\r\n\r\n%s",
			methods[pick.IntN(len(methods))], path, dos[pick.IntN(len(dos))], len(body), body)
		want = append(want, path+":"+body)
	}
	if pick.IntN(4) == 0 {
		text = text[:pick.IntN(len(text))]
	}
	away := pick.IntN(5) == 0
	cut := rand.New(rand.NewPCG(pick.Uint64(), 2))
	go func() { // ends with the connection
		for text != "" {
			n := 1 + cut.IntN(len(text))
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	if away {
		return nil // goes away
	}
	from := bufio.NewReader(c)
	for _, want := range want {
		resp, _ := http.ReadResponse(from, nil)
		if resp == nil {
			break // by its own or the handler's doing
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && string(body) != want {
			return fmt.Errorf("answer %.60q to %.60q", body, want)
		}
	}
	return nil
}
