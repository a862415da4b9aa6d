package auth_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolgate/toolgate/proxy/auth"
)

// leading returns a resolver that resolves every name to one address.
func leading(t *testing.T, address string) *net.Resolver {
	t.Helper()
	answer := func(conn net.Conn) {
		defer conn.Close()
		for {
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			var m dnsmessage.Message
			if _, err := io.ReadFull(conn, query); err != nil || m.Unpack(query) != nil || len(m.Questions) != 1 {
				return
			}
			m.Header.Response, m.Additionals = true, nil
			q, a := m.Questions[0], netip.MustParseAddr(address)
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
			switch {
			case q.Type == dnsmessage.TypeA && a.Is4():
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
			case q.Type == dnsmessage.TypeAAAA && a.Is6():
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
			out, err := m.Pack()
			if err != nil {
				return
			}
			if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
				return
			}
		}
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		own, other := net.Pipe()
		go answer(other) // ends with the connection
		return own, nil
	}}
}

// TestIssuersLeadNowhereInside resolves the name of an issuer, or of its keys, to this
// machine and to the services of a cloud machine: nothing connects.
func TestIssuersLeadNowhereInside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{"127.0.0.1", "127.1.2.3", "::1", "169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "::", "224.0.0.1"} {
		conn, err := auth.Dial(t.Context(), leading(t, inside), "issuer.example:"+port)
		if !errors.Is(err, auth.ErrInside) {
			t.Errorf("%s: %v", inside, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
	for _, address := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "[fe80::1]:80", "0.0.0.0:" + port} {
		if _, err := auth.Dial(t.Context(), nil, address); !errors.Is(err, auth.ErrInside) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, here := range []string{l.Addr().String(), "issuer.localhost:" + port} {
		conn, err := auth.Dial(t.Context(), leading(t, "127.0.0.1"), here)
		if err != nil {
			t.Errorf("%s: %v", here, err)
			continue
		}
		conn.Close()
	}
}
