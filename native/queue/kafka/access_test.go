package kafka_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/kafka"
	"github.com/toolgate/toolgate/native/queue/queuetest"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

// Brokers are reached by TLS, with a certificate that is verified, and as a user.
func TestAccess(t *testing.T) {
	t.Parallel()
	ca := authtest.NewCA(t)
	_, cert, key := ca.Gateway(t, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(ca.Cert)
	verify := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: known}
	strange := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}),
			kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "toolgate", "password"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		user := queue.SASL{Mechanism: mechanism, User: "toolgate", Password: "password"}
		wrong := user
		wrong.Password = "other"
		for name, c := range map[string]struct {
			access kafka.Access
			good   bool
		}{
			"a user":             {kafka.Access{TLS: verify, SASL: user}, true},
			"a wrong password":   {kafka.Access{TLS: verify, SASL: wrong}, false},
			"nobody":             {kafka.Access{TLS: verify}, false},
			"another authority":  {kafka.Access{TLS: strange, SASL: user}, false},
			"without encryption": {kafka.Access{SASL: user}, false},
		} {
			t.Run(mechanism+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				if !c.good { // a wrong password is tried again until the time is over
					short, cancel := context.WithTimeout(ctx, 2*time.Second)
					defer cancel()
					ctx = short
				}
				e, err := kafka.Open(ctx, "kafka://"+strings.Join(cluster.ListenAddrs(), ","), c.access, queuetest.Bounds, slog.New(slog.DiscardHandler))
				if (err == nil) != c.good {
					t.Fatal(err)
				}
				if err != nil {
					if strings.Contains(err.Error(), "other") {
						t.Errorf("the password is shown: %v", err)
					}
					return
				}
				defer e.Close()
				if err := e.Declare(t.Context(), "q", "k1"); err != nil {
					t.Fatal(err)
				}
				if key, err := e.Key(t.Context(), "q"); err != nil || key != "k1" {
					t.Errorf("%q, %v", key, err)
				}
			})
		}
	}
}
