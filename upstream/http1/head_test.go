package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/httpfield"
)

// Heads that are read here, and heads that net/http has to look at.
var heads = []struct {
	name, text string
	plain      bool
}{
	{"a length", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n", true},
	{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true},
	{"chunks in capitals", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", true},
	{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", true},
	{"an empty reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", true},
	{"nothing", "HTTP/1.1 204 No Content\r\n\r\n", true},
	{"nothing, and so told", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true},
	{"values twice", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: A\r\nwww-authenticate: B\r\nContent-Length: 1\r\n\r\n", true},
	{"blanks around a value", "HTTP/1.1 200 OK\r\nA:\t b \t\r\nContent-Length:3\r\n\r\n", true},
	{"the end of the connection", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n", true},
	{"an empty value", "HTTP/1.1 200 OK\r\nA:\r\nContent-Length: 3\r\n\r\n", true},

	{"no length", "HTTP/1.1 200 OK\r\n\r\n", false},
	{"a body of nothing", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", false},
	{"an older version", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", false},
	{"a version in small letters", "http/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", false},
	{"one length twice", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", false},
	{"lengths in a list", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n", false},
	{"a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n", false},
	{"a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n", false},
	{"an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", false},
	{"a hexadecimal length", "HTTP/1.1 200 OK\r\nContent-Length: 0x3\r\n\r\n", false},
	{"a length that overflows", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551619\r\n\r\n", false},
	{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"chunks and length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", false},
	{"another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", false},
	{"identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", false},
	{"chunks twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"a vertical tab", "HTTP/1.1 200 OK\r\nTransfer-Encoding:\vchunked\r\n\r\n", false},
	{"a blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n", false},
	{"a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 3\r\n\r\n", false},
	{"a first line that is folded", "HTTP/1.1 200 OK\r\n Content-Length: 3\r\n\r\n", false},
	{"a line without a colon", "HTTP/1.1 200 OK\r\nContent-Length 3\r\n\r\n", false},
	{"a line without a name", "HTTP/1.1 200 OK\r\n: 3\r\n\r\n", false},
	{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 3\n\n", false},
	{"one bare line feed", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 3\r\n\r\n", false},
	{"a carriage return in a value", "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 3\r\n\r\n", false},
	{"a carriage return too many", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\r\n\r\n", false},
	{"a zero byte", "HTTP/1.1 200 OK\r\nA: b\x00\r\nContent-Length: 3\r\n\r\n", false},
	{"an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", false},
	{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", false},
	{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", false},
	{"four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 3\r\n\r\n", false},
	{"two digits", "HTTP/1.1 20 OK\r\nContent-Length: 3\r\n\r\n", false},
	{"no status", "HTTP/1.1 OK\r\nContent-Length: 3\r\n\r\n", false},
	{"trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n", false},
	{"an upgrade", "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\n", false},
	{"another option of the connection", "HTTP/1.1 200 OK\r\nConnection: close, a\r\nContent-Length: 3\r\n\r\n", false},
	{"another protocol altogether", "SSH-2.0-OpenSSH_9.2\r\n\r\n", false},
}

func TestHead(t *testing.T) {
	t.Parallel()
	for _, tt := range heads {
		t.Run(tt.name, func(t *testing.T) {
			if got := headEnd([]byte(tt.text), 0); got != len(tt.text) {
				t.Errorf("the head ends after %d bytes, not %d", got, len(tt.text))
			}
			if _, plain := parseHead([]byte(tt.text), new(httpfield.Memory)); plain != tt.plain {
				t.Errorf("plain: %t, want %t", plain, tt.plain)
			}
			sameHead(t, []byte(tt.text))
		})
	}
}

// sameHead holds a head that is read here against what net/http reads.
func sameHead(t *testing.T, text []byte) {
	t.Helper()
	h, plain := parseHead(text, new(httpfield.Memory))
	if !plain {
		return
	}
	want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", text, err)
	}
	want.Body.Close()
	if h.chunked {
		h.length = -1
		if len(want.TransferEncoding) != 1 {
			t.Errorf("net/http sees no chunks in %q", text)
		}
		h.header.Del("Transfer-Encoding")
	}
	if h.status != want.StatusCode || h.reason != want.Status || h.length != want.ContentLength || h.closes != want.Close {
		t.Errorf("%q: got %d %q %d %t, net/http has %d %q %d %t", text,
			h.status, h.reason, h.length, h.closes, want.StatusCode, want.Status, want.ContentLength, want.Close)
	}
	if want.Header.Del("Connection"); true {
		h.header.Del("Connection")
	}
	if !reflect.DeepEqual(h.header, want.Header) {
		t.Errorf("%q: header %v, net/http has %v", text, h.header, want.Header)
	}
}

func FuzzHead(f *testing.F) {
	for _, tt := range heads {
		f.Add([]byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		end := headEnd(text, 0)
		for from := range min(end, 40) {
			if got := headEnd(text, from); got != end {
				t.Fatalf("the head of %q ends after %d bytes, but from %d on after %d", text, end, from, got)
			}
		}
		if end > 0 {
			sameHead(t, text[:end])
		}
	})
}

// What a request must not say about the connection stays with net/http, which refuses it or
// knows what to do.
func TestFields(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq("Connection Content-Length Expect Host Keep-Alive Proxy-Connection Te Trailer Transfer-Encoding Upgrade") {
		if areFields(http.Header{name: {"x"}}) {
			t.Errorf("%s is sent", name)
		}
	}
	for _, h := range []http.Header{{"A b": {"x"}}, {"A": {"x\r\nB: y"}}, {"": {"x"}}, {"A:": {"x"}}, {"A": {"\x00"}}} {
		if areFields(h) {
			t.Errorf("%q is sent", h)
		}
	}
	for host, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "example.com": true, "": false, "a b": false, "a\r\nb": false,
		"bücher.example": false, "[fe80::1%25eth0]:80": false, "user@host": false, "a/b": false,
	} {
		if isHost(host) != want {
			t.Errorf("host %q: %t", host, !want)
		}
	}
}
