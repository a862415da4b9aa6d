package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit bounds a whole release: a build of six platforms with an empty cache takes about
// a quarter of an hour on two cores.
const limit = 90 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := command(ctx, os.Args[1:], os.Stdout)
	cancel()
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	root, out  string
	key        string
	dry, twice bool
	platforms  []platform
}

// command reads the arguments, makes the release and says what it made.
func command(ctx context.Context, args []string, out io.Writer) error {
	s, err := read(ctx, args, out)
	if err != nil {
		return err
	}
	src, err := inspect(ctx, s.root, s.dry)
	if err != nil {
		return err
	}
	signer, err := newSigner(ctx, s, src)
	if err != nil {
		return err
	}
	defer signer.close()
	if err := emptied(s.out); err != nil {
		return err
	}
	if linked(src.root) {
		dir, err := os.MkdirTemp("", "toolgate-source-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if src, err = copySource(ctx, src, filepath.Join(dir, "source")); err != nil {
			return err
		}
	}
	r := &release{source: src, out: s.out, platforms: s.platforms, signer: signer, progress: out}
	if err := r.make(ctx); err != nil {
		return err
	}
	if s.twice {
		if err := reproduce(ctx, r); err != nil {
			return err
		}
	}
	return r.summary(out, s.dry)
}

func read(ctx context.Context, args []string, out io.Writer) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.root, "root", "", "the `folder` of the repository; the one of the working folder if empty")
	flags.StringVar(&s.out, "out", "", "the `folder` for the results; out/release of the repository if empty")
	flags.StringVar(&s.key, "key", "", "an SSH key `file` that signs the checksums; a public key is looked for in the agent")
	flags.BoolVar(&s.dry, "dry", false, "a rehearsal: any commit, the version "+dryVersion+", a key made for it")
	flags.BoolVar(&s.twice, "twice", false, "build a second time from a copy of the sources, and compare every byte")
	only := flags.String("platforms", "", "some of the platforms, such as linux/amd64,darwin/arm64; only with -dry")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("the argument %q is unknown: the command takes flags only (-h lists them)", flags.Arg(0))
	}
	switch {
	case s.dry && s.key != "":
		return s, errors.New("-dry makes a key of its own: leave -key out")
	case !s.dry && s.key == "":
		return s, errors.New("a release is signed: name a key with -key, or rehearse with -dry")
	case !s.dry && *only != "":
		return s, errors.New("a release has all platforms: -platforms is for -dry alone")
	}
	var err error
	if s.platforms, err = choose(*only); err != nil {
		return s, err
	}
	if s.root == "" {
		top, err := run(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
		if err != nil {
			return s, err
		}
		s.root = strings.TrimSpace(top)
	}
	if s.root, err = filepath.Abs(s.root); err != nil {
		return s, err
	}
	if s.out == "" {
		s.out = filepath.Join(s.root, "out", "release")
	}
	s.out, err = filepath.Abs(s.out)
	return s, err
}

// platform is a system and a processor, in the words of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// name is how files for the platform begin.
func (p platform) name() string { return "toolgate_" + p.os + "_" + p.arch }

// program is the name of the program on the platform.
func (p platform) program() string {
	if p.os == "windows" {
		return "toolgate.exe"
	}
	return "toolgate"
}

// archive is the name of the archive for the platform.
func (p platform) archive() string {
	if p.os == "windows" {
		return p.name() + ".zip"
	}
	return p.name() + ".tar.gz"
}

// host is the platform that this command runs on.
var host = platform{runtime.GOOS, runtime.GOARCH}

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

// choose returns the platforms of a list with commas; all of them for an empty one.
func choose(list string) ([]platform, error) {
	if list == "" {
		return platforms, nil
	}
	var chosen []platform
	for word := range strings.SplitSeq(list, ",") {
		goos, arch, _ := strings.Cut(word, "/")
		p := platform{goos, arch}
		if !slices.Contains(platforms, p) {
			return nil, fmt.Errorf("-platforms: %q is none of %v", word, platforms)
		}
		if !slices.Contains(chosen, p) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// marker is in a folder that this command made, which it may empty.
const marker = ".made-by-toolgate-release"

// emptied makes a folder, or empties the one that an earlier run made.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
			return fmt.Errorf("%s holds something that no release made: name an empty folder with -out", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, marker), nil, 0o644)
}
