package sdk

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/toolgate/toolgate/native/proto"
)

// Serve serves the tools until toolgate ends the program. A program that was
// started by hand is told so. It does not return.
func (p *Plugin) Serve() {
	// go-plugin reads the levels of lines on the real standard error only, which
	// it replaces when it serves.
	log := hclog.New(&hclog.LoggerOptions{Name: p.Name(), Output: os.Stderr, Level: hclog.Debug, JSONFormat: true})
	if _, err := p.Tools(); err != nil {
		log.Error("the plugin cannot be served", "error", err.Error())
		os.Exit(1)
	}
	if os.Getenv(proto.CookieKey) == proto.CookieValue {
		go endWithHost(os.Stdin)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: proto.CookieKey, MagicCookieValue: proto.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{proto.Version: {"tools": &served{plugin: p, log: log}}},
		Logger:           log,
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(maxMessage))...)
		},
	})
	os.Exit(0)
}

// endWithHost ends the program with the gateway that started it, whose end shows
// as the end of the standard input.
func endWithHost(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(0)
}

// served is a plugin as go-plugin has it.
type served struct {
	goplugin.NetRPCUnsupportedPlugin

	plugin *Plugin
	log    hclog.Logger
}

// GRPCServer implements goplugin.GRPCPlugin.
func (s *served) GRPCServer(_ *goplugin.GRPCBroker, to *grpc.Server) error {
	return s.plugin.Register(to, s.log)
}

// GRPCClient implements goplugin.GRPCPlugin.
func (s *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("%s is a plugin and calls none", s.plugin.Name())
}
