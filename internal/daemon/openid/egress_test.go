package openid

import (
	"testing"

	"github.com/toolgate/toolgate/internal/egress"
)

// The endpoints of an issuer are public, or where the issuer itself is.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		issuer, endpoint string
		reached          bool
	}{
		{"https://issuer.example", "https://issuer.example/token", true},
		{"https://issuer.example", "https://93.184.216.34/token", true},
		{"https://issuer.example", "http://issuer.example/token", false},
		{"https://issuer.example", "https://127.0.0.1/token", false},
		{"https://issuer.example", "https://[::1]/token", false},
		{"https://issuer.example", "https://10.0.0.1/token", false},
		{"https://issuer.example", "https://169.254.169.254/token", false},
		{"https://10.0.0.1:8443", "https://10.0.0.1/token", true},
		{"https://10.0.0.1", "https://10.0.0.2/token", false},
		{"https://10.0.0.1", "https://127.0.0.1/token", false},
		{"https://169.254.169.254", "https://169.254.169.254/token", false},
		{"https://[fd00:ec2::254]", "https://[fd00:ec2::254]/token", false},
		{"https://[fd00::1]", "https://[fd00::1]/token", true},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9001/token", true},
		{"http://localhost:9000", "http://localhost:9000/token", true},
		{"http://127.0.0.1:9000", "http://10.0.0.1/token", false},
	} {
		guard, err := egress.New(policy(test.issuer, test.endpoint))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Parse(test.endpoint); (err == nil) != test.reached {
			t.Errorf("%s of %s: %v", test.endpoint, test.issuer, err)
		}
	}
}
