package http1_test

import (
	"strings"
	"testing"
)

// next is a request that must be found where net/http finds it, or not at all.
const next = "GET /next HTTP/1.1\r\nHost: gate.example\r\n\r\n"

// heads are heads of requests with the body {} that two parsers could cut differently.
var heads = []string{
	// two lengths
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding : chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n Transfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding:\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: xchunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: identity\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer_Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\ntransfer-encoding: \x0bchunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX: y\r\r\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\ncontent-length: 0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2,0\r\n\r\n",
	// odd lengths
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2_0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2.0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"2\"\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ٢\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 00002\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \t 2 \t\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n Content-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent\x00-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\x00\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 000000000000000002\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0000000000000000002\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551618\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	// ends of lines
	"POST / HTTP/1.1\nHost: a\nContent-Length: 2\n\n",
	"POST / HTTP/1.1\r\nHost: a\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\n\r\n",
	"POST / HTTP/1.1\rHost: a\rContent-Length: 2\r\r",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\r\n",
	"POST / HTTP/1.1\r\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\n\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"\r\n\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	" POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	// names and values
	"POST / HTTP/1.1\r\n Host: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n: x\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nNo colon\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX Y: x\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX(Y): x\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nÜ: x\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: ü\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: \xff\xfe\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\tb \x0b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n \r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nSet-Cookie: a\r\nset-cookie: b\r\nSET-COOKIE: c\r\nContent-Length: 2\r\n\r\n",
	// hosts
	"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost:\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nhost: b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a, b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a/b\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: u@a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: <a>\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: ü\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a:99999\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost : a\r\nContent-Length: 2\r\n\r\n",
	// first lines
	"POST http://b/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST //b/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST ///b/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST  HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1 \r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /  HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST  / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST\t/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /a b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /a\x00b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /a\x7fb HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /a\rb HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /\xff\xc3 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /%zz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /%00%2f%2F/../x;y#z?%gg HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /?%gg&a;b=# HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST /a:b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"post / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"P\xd6ST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"M-SEARCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
	"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n",
	"POST / HTTP/1.2\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/2.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/01.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / http/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"POST / HTTP/1.1x\r\nHost: a\r\nContent-Length: 2\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	"\x16\x03\x01\x02\x00\x01\x00\n\x01\xfc\x03\x03\r\n\r\n",
	// connections
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close, x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: x, CLOSE\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: CLOSE\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: Content-Length\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection:\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: x\r\n\r\n",
}

// chunks are bodies in chunks that two parsers could cut differently.
var chunks = []string{
	"2\r\n{}\r\n0\r\n\r\n", "2;a=b\r\n{}\r\n0\r\n\r\n", "2 \r\n{}\r\n0\r\n\r\n", "2\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "2\r\n{}\n0\r\n\r\n",
	"02\r\n{}\r\n00\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n", "+2\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\nX: y\r\n\r\n", "2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n",
	"2;\n\r\n{}\r\n0\r\n\r\n", "2;a=\"\r\n\"\r\n{}\r\n0\r\n\r\n", "0\r\n\r\n", "0\r\nGET /next HTTP/1.1\r\n\r\n", "\r\n2\r\n{}\r\n0\r\n\r\n",
	"10000000000000002\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\n\n", "2\r\n{}\r\n0;x\r\n\r\n", "-1\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n",
}

// odd returns the texts that a client could confuse a server with.
func odd() []string {
	var all []string
	for _, head := range heads {
		all = append(all, head+"{}"+next, head+next, head, head[:len(head)-2], head+"2\r\n{}\r\n0\r\n\r\n"+next)
	}
	for _, body := range chunks {
		all = append(all, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+body+next,
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"+body+next)
	}
	return append(all, "", "\r\n", "G", "GET", "GET ", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r")
}

// TestOdd sends what two parsers could cut differently after a request, and some of it at the
// beginning of a connection and byte by byte.
func TestOdd(t *testing.T) {
	for i, text := range odd() {
		if i%5 == 0 { // the forms of a head
			checkSame(t, []byte(text), 0, i%2 == 0)
		}
		if i%7 == 0 {
			checkSame(t, []byte(next+text), ^uint64(0), i%2 == 0)
		}
		checkSame(t, []byte(post("/first", "{}")+text), 0x10_0000_1000_0800, i%2 == 0)
	}
}

// TestSizes sends heads whose length is near the bounds of buffers.
func TestSizes(t *testing.T) {
	const begin = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX: "
	for _, size := range []int{4094, 4095, 4096, 4097, 4098, 8192, 64 << 10, 80 << 10} {
		one := begin + strings.Repeat("x", size-len(begin)-4) + "\r\n\r\n"
		long := "GET /" + strings.Repeat("y", size-20) + " HTTP/1.1\r\nHost: a\r\n\r\n"
		many := begin + strings.Repeat("x\r\nY: ", (size-len(begin))/6) + "\r\n\r\n"
		for i, text := range []string{one + "{}" + next, next + one + "{}" + next, long + next, many + "{}" + next, one[:len(one)-2]} {
			checkSame(t, []byte(text), 0, i%2 == 0)
			checkSame(t, []byte(text), 1<<63, i%2 == 1)
		}
	}
}

// FuzzSame gives the same bytes to this server and to that of the standard library.
func FuzzSame(f *testing.F) {
	for i, text := range odd() {
		if i%8 == 0 {
			f.Add([]byte(next+text), uint64(i)<<uint(i%60), i%3 == 0)
		}
	}
	for i, action := range actions {
		f.Add([]byte("POST /?"+action+" HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"+next), uint64(i)<<20, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, text []byte, cuts uint64, wrapped bool) {
		if len(text) > 20_000 {
			return
		}
		checkSame(t, text, cuts, wrapped)
	})
}
