//go:build !windows

package native

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/sdk"
)

// The test program is the plugin as well, and the gateway that is killed.
const (
	playVar   = "TEST_PLAY"
	folderVar = "TEST_FOLDER"
	// What the gateway that is killed has a plugin of.
	modeVar    = "TEST_MODE"
	networkVar = "TEST_NETWORK"
	programVar = "TEST_PROGRAM"
	startVar   = "TEST_START"
)

func TestMain(m *testing.M) {
	switch os.Getenv(playVar) {
	case "":
		testwait.AtOnce(8, 24)
		code := m.Run()
		if folder, err := pureFolder(); err == nil {
			_ = os.RemoveAll(folder)
		}
		os.Exit(code)
	case "host":
		playHost()
	case "mute":
		testwait.Hang()
	case "noise":
		fmt.Println("Loading the model, please wait")
	case "other version":
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: proto.CookieKey, MagicCookieValue: proto.CookieValue},
			VersionedPlugins: map[int]goplugin.PluginSet{7: {}}, GRPCServer: goplugin.DefaultGRPCServer,
		})
	case "elsewhere":
		fmt.Println("1|1|unix|" + os.Getenv(folderVar) + "|grpc")
		testwait.Hang()
	case "network":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc")
		testwait.Hang()
	case "before frames": // as a plugin that was built before there were any
		p := play()
		p.Init = func([]byte) error { return os.Unsetenv(goplugin.EnvUnixSocketDir) }
		p.Serve()
	case "lying": // its frames are another program's
		p := play()
		p.Init = func([]byte) error { return os.Setenv(goplugin.EnvUnixSocketDir, os.Getenv(folderVar)) }
		p.Serve()
	case "dies":
		fmt.Fprintln(os.Stderr, "no licence found")
		fmt.Fprintln(os.Stderr, "\x1b[31mgiving up\x1b[0m")
		os.Exit(2)
	}
	play().Serve()
}

// play is a plugin with a tool for each thing that can go wrong.
func play() *sdk.Plugin {
	p := sdk.New("play", "1.2.3")
	p.Init = func(config []byte) error {
		var c struct{ Refuse string }
		if err := json.Unmarshal(config, &c); err != nil || c.Refuse != "" {
			return fmt.Errorf("refused: %s %w", c.Refuse, err)
		}
		return nil
	}
	type text struct {
		Text string `json:"text"`
	}
	type nothing struct{}
	sdk.Add(p, sdk.Tool{Name: "echo", Title: "Echo", ReadOnly: true, Risk: sdk.Low, Category: "text", Timeout: 7 * time.Second, RatePerHour: 11},
		func(_ context.Context, call *sdk.Call, _ text) (sdk.Result, error) {
			return sdk.Result{Content: []byte(`[{"type":"text","text":"hi", "x": 1.50}]`), Structured: call.Arguments}, nil
		})
	sdk.Add(p, sdk.Tool{Name: "say"}, func(_ context.Context, call *sdk.Call, in text) (string, error) {
		call.Progress(1, 2, "half")
		call.Log("warning", "careful")
		return in.Text, nil
	})
	sdk.Add(p, sdk.Tool{Name: "problem"}, func(context.Context, *sdk.Call, nothing) (string, error) {
		return "", sdk.Problemf("The path %q is outside.", "/etc")
	})
	sdk.Add(p, sdk.Tool{Name: "fail"}, func(context.Context, *sdk.Call, nothing) (string, error) {
		return "", fmt.Errorf("a secret detail")
	})
	sdk.Add(p, sdk.Tool{Name: "panic"}, func(context.Context, *sdk.Call, nothing) (string, error) { panic("oh") })
	sdk.Add(p, sdk.Tool{Name: "exit"}, func(context.Context, *sdk.Call, nothing) (string, error) {
		os.Exit(3)
		return "", nil
	})
	sdk.Add(p, sdk.Tool{Name: "large"}, func(context.Context, *sdk.Call, nothing) (string, error) {
		return strings.Repeat("a", 64<<20), nil
	})
	sdk.Add(p, sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.Call, in text) (string, error) {
		if err := os.WriteFile(in.Text, []byte("running"), 0o600); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", os.WriteFile(in.Text, []byte("canceled"), 0o600)
	})
	sdk.Add(p, sdk.Tool{Name: "steps"}, func(ctx context.Context, call *sdk.Call, _ nothing) (string, error) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := range 20 {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-tick.C:
				call.Progress(float64(i+1), 20, "")
			}
		}
		return "done", nil
	})
	sdk.Add(p, sdk.Tool{Name: "environment"}, func(context.Context, *sdk.Call, nothing) (string, error) {
		return strings.Join(os.Environ(), "\n"), nil
	})
	sdk.Add(p, sdk.Tool{Name: "print"}, func(_ context.Context, _ *sdk.Call, in text) (string, error) {
		fmt.Println("out: " + in.Text)
		fmt.Fprintln(os.Stderr, "err: "+in.Text)
		return "printed", nil
	})
	addNested(p)
	addDeeds(p)
	p.Intercept(func(ctx context.Context, inv *sdk.Invocation) (sdk.Verdict, error) {
		switch inv.Name {
		case "panic":
			panic("oh")
		case "exit":
			os.Exit(3)
		case "wait":
			<-ctx.Done()
			return sdk.Verdict{}, os.WriteFile(string(inv.Payload), nil, 0o600)
		}
		return sdk.Verdict{Decision: sdk.Allow, Reason: inv.Principal, Payload: inv.Payload}, nil
	})
	return p
}

// addNested adds tools that call others.
func addNested(p *sdk.Plugin) {
	type calls struct {
		Tool string `json:"tool"`
		N    int    `json:"n"`
	}
	sdk.Add(p, sdk.Tool{Name: "nest"}, func(ctx context.Context, call *sdk.Call, in calls) (string, error) {
		texts, errs := make([]string, in.N), make([]error, in.N)
		var all sync.WaitGroup
		for i := range in.N {
			all.Go(func() {
				var got sdk.Result
				if got, errs[i] = call.CallTool(ctx, in.Tool, map[string]int{"n": i}); errs[i] == nil {
					texts[i] = got.Text
				} else {
					call.Progress(1, 1, "one is not made")
				}
			})
		}
		all.Wait()
		return strings.Join(texts, " "), errors.Join(errs...)
	})
}

// addDeeds adds tools that reach for what they may not have. Each says what came
// of it.
func addDeeds(p *sdk.Plugin) {
	type at struct {
		Path    string `json:"path"`
		Network string `json:"network,omitempty"`
	}
	deed := func(name string, do func(at) (string, error)) {
		sdk.Add(p, sdk.Tool{Name: name}, func(_ context.Context, _ *sdk.Call, in at) (string, error) {
			got, err := do(in)
			if err != nil {
				return "", sdk.Problemf("refused: %v", err)
			}
			return got, nil
		})
	}
	deed("read", func(in at) (string, error) {
		got, err := os.ReadFile(in.Path)
		return string(got), err
	})
	deed("write", func(in at) (string, error) { return "written", os.WriteFile(in.Path, nil, 0o600) })
	deed("connect", func(in at) (string, error) {
		c, err := net.DialTimeout(in.Network, in.Path, 5*time.Second)
		if err != nil {
			return "", err
		}
		return "connected", c.Close()
	})
	deed("start", func(in at) (string, error) {
		return "started", exec.Command("/bin/sleep", in.Path).Start()
	})
	deed("stay", func(at) (string, error) {
		dir := os.Getenv("TMPDIR") + "/a/b"
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		return "made", os.Chmod(filepath.Dir(dir), 0)
	})
}

// playHost is a gateway with one plugin, until it is killed.
func playHost() {
	orphan.Guard(func(err error) { fmt.Fprintln(os.Stderr, err) })
	h, err := NewHost(Options{Folder: os.Getenv(folderVar), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		spec := specOf("plain")
		if mode := sandbox.Mode(os.Getenv(modeVar)); mode != "" {
			spec.Policy = sandbox.Policy{Mode: mode, Temp: true, Run: []string{"/bin", "/usr/bin"}}
			spec.Policy.Network = sandbox.Network(os.Getenv(networkVar))
			spec.Path = os.Getenv(programVar)
			spec.SHA256 = checksum(spec.Path)
		}
		p := h.Plugin(spec)
		go func() { _ = p.Run(context.Background()) }()
		for p.PID() == 0 {
			if _, s := p.Listing(); s.State == mcp.Failed {
				fmt.Fprintln(os.Stderr, s.Reason)
				os.Exit(1)
			}
			_ = p.Probe(context.Background())
		}
		if long := os.Getenv(startVar); long != "" {
			if _, err := p.Call(context.Background(), callOf("start", `{"path":"`+long+`"}`)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		fmt.Println(p.PID())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	never := make(chan os.Signal, 1)
	signal.Notify(never, os.Interrupt)
	<-never
}

// specOf is a plugin that plays a part.
func specOf(part string) Spec {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{
		Key: "play", Path: path, SHA256: checksum(path), Env: []string{playVar + "=" + part}, AutoMTLS: true,
		Policy: sandbox.Policy{Mode: sandbox.Off},
	}
}

var checksum = func() func(string) string {
	var mu sync.Mutex
	known := map[string]string{}
	return func(path string) string {
		mu.Lock()
		defer mu.Unlock()
		if known[path] == "" {
			f, err := os.Open(path)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			h := sha256.New()
			if _, err := io.Copy(h, f); err != nil {
				panic(err)
			}
			known[path] = hex.EncodeToString(h.Sum(nil))
		}
		return known[path]
	}
}()

// running is a plugin that runs as long as a test.
type running struct {
	*Plugin
	log *logged
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// looksOften has a process that hangs be found soon. On a busy machine that may be one that is slow.
func looksOften(o *Options) { o.health = 500 * time.Millisecond }

// run runs a plugin to the end of the test.
func run(t *testing.T, s Spec, change ...func(*Options)) *running {
	t.Helper()
	log := &logged{}
	o := Options{
		Folder: t.TempDir() + "/sockets", Version: "9",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	h, err := NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Timeouts.Start == 0 {
		s.Timeouts.Start = patience // the machine may be busy
	}
	p := h.Plugin(s)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the plugin does not end")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return &running{p, log}
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 30 * time.Second

func (r *running) state() mcp.State {
	_, s := r.Listing()
	return s.State
}

func (r *running) await(t *testing.T, want mcp.State) mcp.Status {
	t.Helper()
	testwait.Until(t, patience, "the state "+want.String(), func() bool { return r.state() == want })
	_, s := r.Listing()
	return s
}

// callOf is a call of a tool.
func callOf(tool, args string) *mcp.Call {
	return &mcp.Call{Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: tool, Params: []byte(`{"name":"` + tool + `","arguments":` + args + `}`)}
}

// holds tells whether a file has a text.
func holds(path, text string) bool {
	got, err := os.ReadFile(path)
	return err == nil && string(got) == text
}

// left are the sockets in the folder of a plugin's host.
func (r *running) left(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(r.host.opts.Folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}
