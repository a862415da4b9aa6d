package daemon

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/version"
)

// The default address may be another gateway's; one that was asked for may not.
func TestMetricsAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for kind, refused := range map[tree.OriginKind]bool{tree.OriginDefault: false, tree.OriginFile: true, tree.OriginEnv: true} {
		c, err := config.Default(config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Toolgate.Listen.Metrics = taken.Addr().String()
		c.Origins["listen.metrics"] = tree.Origin{Kind: kind}
		d := &Daemon{settings: settings{file: c}, log: slog.New(slog.DiscardHandler), metrics: telemetry.New(version.Version)}
		err = d.ServeMetrics(t.Context())
		if coded, ok := errors.AsType[*failure.Error](err); ok != refused || ok && coded.Kind != failure.Unreachable {
			t.Errorf("%v: %v", kind, err)
		}
	}
	// No address, no listener, whatever else there is.
	if err := (&Daemon{settings: settings{file: &config.Config{}}}).ServeMetrics(t.Context()); err != nil {
		t.Errorf("no address: %v", err)
	}
}
