package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/toolgate/toolgate/native/queue"
)

// dialTime bounds one connection.
const dialTime = 5 * time.Second

// Access is how the brokers are reached. The zero value is without encryption and a user.
type Access struct {
	TLS  *tls.Config // nil without encryption
	SASL queue.SASL
}

func (a *Access) options() ([]kgo.Opt, error) {
	out := []kgo.Opt{kgo.DialTimeout(dialTime)}
	if a.TLS != nil {
		out = append(out, kgo.DialTLSConfig(a.TLS))
	}
	user, password := a.SASL.User, a.SASL.Password.Reveal()
	switch a.SASL.Mechanism {
	case "":
	case "plain":
		if a.TLS == nil {
			return nil, errors.New("the SASL mechanism plain needs TLS")
		}
		out = append(out, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "scram-sha-256":
		out = append(out, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "scram-sha-512":
		out = append(out, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("%q is not a SASL mechanism; write plain, scram-sha-256 or scram-sha-512", a.SASL.Mechanism)
	}
	return out, nil
}
