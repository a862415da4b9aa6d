package nats_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/toolgate/toolgate/native/queue/nats"
	"github.com/toolgate/toolgate/native/queue/queuetest"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

// account is an operator with one account that has JetStream, and a user of it.
type account struct {
	operator    *jwt.OperatorClaims
	resolver    *server.MemAccResolver
	system      string // the id of the system account
	credentials string // a file
}

func newAccount(t *testing.T) *account {
	keys := func(of func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		pair, err := of()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return pair, public
	}
	operator, operatorID := keys(nkeys.CreateOperator)
	owner, ownerID := keys(nkeys.CreateAccount)
	user, userID := keys(nkeys.CreateUser)
	a := &account{resolver: &server.MemAccResolver{}, credentials: filepath.Join(t.TempDir(), "user.creds")}
	encoded := func(c jwt.Claims, by nkeys.KeyPair) string {
		text, err := c.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	oc := jwt.NewOperatorClaims(operatorID)
	var err error
	if a.operator, err = jwt.DecodeOperatorClaims(encoded(oc, operator)); err != nil {
		t.Fatal(err)
	}
	ac := jwt.NewAccountClaims(ownerID)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	if err := a.resolver.Store(ownerID, encoded(ac, operator)); err != nil {
		t.Fatal(err)
	}
	_, a.system = keys(nkeys.CreateAccount)
	if err := a.resolver.Store(a.system, encoded(jwt.NewAccountClaims(a.system), operator)); err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(encoded(jwt.NewUserClaims(userID), owner), seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.credentials, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// A server is reached by TLS, with a certificate that is verified, and with credentials.
func TestAccess(t *testing.T) {
	t.Parallel()
	ca := authtest.NewCA(t)
	_, cert, key := ca.Gateway(t, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	a := newAccount(t)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		TLS: true, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		TrustedOperators: []*jwt.OperatorClaims{a.operator}, AccountResolver: a.resolver, SystemAccount: a.system,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	known := x509.NewCertPool()
	known.AddCert(ca.Cert)
	verify := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: known}
	for name, c := range map[string]struct {
		access nats.Access
		good   bool
	}{
		"with both":           {nats.Access{TLS: verify, Credentials: a.credentials}, true},
		"without credentials": {nats.Access{TLS: verify}, false},
		"another authority":   {nats.Access{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}, Credentials: a.credentials}, false},
		"no file":             {nats.Access{TLS: verify, Credentials: a.credentials + "x"}, false},
	} {
		e, err := nats.Open(t.Context(), s.ClientURL(), c.access, queuetest.Bounds, slog.New(slog.DiscardHandler))
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if err := e.Declare(t.Context(), "q", "k1"); err != nil {
			t.Error(err)
		}
		if key, err := e.Key(t.Context(), "q"); err != nil || key != "k1" {
			t.Errorf("%q, %v", key, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
