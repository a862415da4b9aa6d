package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/frames"
	"github.com/toolgate/toolgate/native/handshake"
	"github.com/toolgate/toolgate/native/proto"
)

const (
	// stopTime is how long a process may take to shut down.
	stopTime = 2 * time.Second
	// window is how many bytes may be in flight on a stream.
	window = 1 << 20
	// slack is the size of a message without the part that is limited, in bytes.
	slack = 64 << 10
)

// process is one run of a plugin.
type process struct {
	client  *goplugin.Client
	runner  *runner
	conn    *grpc.ClientConn
	tools   proto.ToolPluginClient
	catalog *catalog
	layers  []string
	frames  *framed // for interceptors; nil where they are asked over gRPC
}

// start starts a process, initialises it and lists its tools.
func (p *Plugin) start(ctx context.Context) (_ *process, err error) {
	ready, err := p.prepare()
	if err != nil {
		return nil, err
	}
	running := &process{client: ready.client, runner: ready.runner}
	// All waits below end when the process does.
	watchdog := time.AfterFunc(p.spec.Timeouts.Start, running.kill)
	defer watchdog.Stop()
	defer context.AfterFunc(ctx, running.kill)()
	defer func() {
		if err != nil {
			running.kill()
			running.client.Kill()
			running.frames.close()
			if late := !watchdog.Stop(); late && ctx.Err() == nil {
				err = fmt.Errorf("it did not serve its tools within %s: %w", p.spec.Timeouts.Start, err)
			}
		}
	}()
	protocol, err := running.client.Client()
	if err != nil {
		return nil, explained(err)
	}
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, fmt.Errorf("it does not speak gRPC: %w", errPermanent)
	}
	running.conn = grpcClient.Conn
	running.tools = proto.NewToolPluginClient(running.conn)
	sctx, cancel := context.WithTimeout(ctx, p.spec.Timeouts.Start)
	defer cancel()
	key := p.framesKey()
	hello, err := running.tools.Init(sctx, &proto.InitRequest{ConfigJson: p.spec.Config, HostVersion: p.host.opts.Version, FramesKey: key})
	if err != nil {
		return nil, fmt.Errorf("initialize it: %w", err)
	}
	if socket := hello.GetFramesSocket(); socket != "" && key != nil {
		dial := func(ctx context.Context) (*frames.Conn, error) { return dialFrames(ctx, socket, ready.folder, key) }
		if running.frames, err = newFramed(sctx, dial); err != nil {
			return nil, err
		}
	}
	if running.layers = ready.layers; p.spec.Shipped {
		running.layers = hello.GetLayers()
	}
	if running.catalog, err = listTools(sctx, running.tools, p.spec.Key, hello, p.log); err != nil {
		return nil, err
	}
	return running, nil
}

// prepared is a process that has not been started.
type prepared struct {
	client *goplugin.Client
	runner *runner
	layers []string
	folder string // of its sockets
}

// prepare prepares a process.
func (p *Plugin) prepare() (*prepared, error) {
	if p.spec.Refused != nil {
		return nil, fmt.Errorf("%w: %w", p.spec.Refused, errPermanent)
	}
	var open *os.File
	var hello []byte
	var err error
	if p.spec.Shipped {
		if hello, err = json.Marshal(embedded.Hello{Policy: p.spec.Policy}); err != nil {
			return nil, fmt.Errorf("write down the policy: %w", err)
		}
		hello = append(hello, '\n')
	} else {
		if why := p.host.opts.NoSockets; why != nil {
			return nil, fmt.Errorf("%w: %w", why, errPermanent)
		}
		if open, err = program(&p.spec); err != nil {
			return nil, err
		}
	}
	out := &prepared{runner: newRunner(p.spec.Key, open, hello, p.spec.Shipped)}
	limit := p.spec.Result + slack
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(2 * window),
		grpc.WithIdleTimeout(0), grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: p.spec.Timeouts.Start}),
	}
	config := &goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: proto.CookieKey, MagicCookieValue: proto.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{proto.Version: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         p.spec.AutoMTLS && !p.spec.Shipped,
		SkipHostEnv:      true,
		StartTimeout:     p.spec.Timeouts.Start,
		Logger:           p.logger(),
		Stderr:           p.lines,
		SyncStdout:       p.lines.Stream(), // while it serves, its output comes over the connection
		SyncStderr:       p.lines.Stream(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.host.opts.Folder},
	}
	config.RunnerFunc = func(_ hclog.Logger, spec *exec.Cmd, folder string) (gorunner.Runner, error) {
		if err := p.command(out, folder); err != nil {
			if open != nil {
				open.Close()
			}
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
		out.runner.cmd.Env = append(out.runner.cmd.Env, spec.Env...)
		return out.runner, nil
	}
	if p.spec.Shipped {
		options = append(options, grpc.WithContextDialer(out.runner.dialer()))
	}
	config.GRPCDialOptions = options
	out.client = goplugin.NewClient(config)
	return out, nil
}

// command sets the command of a process. folder is the folder of its socket.
func (p *Plugin) command(m *prepared, folder string) (err error) {
	r := m.runner
	m.folder = folder
	if p.spec.Shipped {
		r.cmd = &exec.Cmd{Path: p.host.self, Args: []string{p.host.self, handshake.Argument, p.spec.Key}, Env: slices.Clone(p.spec.Env), Dir: "/"}
		r.tree = &processGroup{cmd: r.cmd, guard: child.Alone}
		return nil
	}
	confined, err := confine(&p.spec, r.open, folder)
	if err != nil {
		return err
	}
	if confined == nil {
		r.cmd = unconfined(&p.spec, r.open)
		r.tree = &processGroup{cmd: r.cmd, guard: child.GuardedFirst}
		return nil
	}
	r.cmd, r.tree = confined.Cmd, confined
	r.check = func(network, address string) error { return served(network, address, folder, &p.spec.Policy) }
	for _, layer := range confined.Layers.InForce {
		m.layers = append(m.layers, string(layer))
	}
	return nil
}

// explained rewrites an error of go-plugin for a person.
func explained(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "Unrecognized remote plugin message"):
		line, _, _ := strings.Cut(text, "\n")
		return fmt.Errorf("it printed something else than the handshake first (%s); what a plugin prints belongs to its standard error", printable([]byte(line)))
	case strings.Contains(text, "incompatible API version"):
		return fmt.Errorf("it speaks another version of the protocol (%s): %w", printable([]byte(text)), errPermanent)
	}
	return err
}

// ping checks the health of the process. wait is how long that may take.
func (r *process) ping(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got, err := grpc_health_v1.NewHealthClient(r.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	if err != nil {
		return err
	}
	if got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("it says that it does not serve")
	}
	return nil
}

// kill ends the process at once.
func (r *process) kill() {
	if r.runner.pid() != 0 {
		_ = r.runner.Kill(context.Background())
	}
}

// stop asks the process to shut down and kills it after stopTime. It returns when
// nothing is left of it.
func (r *process) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if _, err := r.tools.Shutdown(ctx, &proto.ShutdownRequest{}); err != nil {
		r.kill()
	}
	// client.Kill waits for an answer without a limit.
	defer time.AfterFunc(stopTime, r.kill).Stop()
	r.client.Kill()
	r.frames.close()
}
