// Command crossvet checks every package and test of this module as another system has them:
// types, and what `go vet` looks for. It only reads the source. `go vet` itself has
// everything that the module uses compiled for that system first, which takes minutes.
//
//	go run ./internal/crossvet windows/amd64
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// most bounds the whole check.
const most = 10 * time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crossvet:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: crossvet GOOS/GOARCH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	wrong, err := check(ctx, ".", args[0])
	if err != nil {
		return err
	}
	for _, w := range wrong {
		fmt.Fprintln(os.Stderr, w)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d mistakes on %s", len(wrong), args[0])
	}
	return nil
}

// check returns what is wrong in the packages below a folder for a system, a line each.
func check(ctx context.Context, folder, system string) ([]string, error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return nil, fmt.Errorf("%q is no system: write GOOS/GOARCH", system)
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: folder, Tests: true, Mode: packages.LoadAllSyntax | packages.NeedModule,
		BuildFlags: []string{"-tags", "e2e"},
		Env:        append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("load the packages: %w", err)
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("no packages below %s", folder)
	}
	var wrong []string
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			wrong = append(wrong, e.Error())
		}
	})
	if len(wrong) == 0 { // nothing can be said of code that has no types
		if wrong, err = vet(loaded); err != nil {
			return nil, err
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong), nil // a package is loaded once more with its tests
}

// vet returns what the analyzers find.
func vet(loaded []*packages.Package) (found []string, err error) {
	graph, err := checker.Analyze(analyzers, loaded, nil)
	if err != nil {
		return nil, fmt.Errorf("analyze the packages: %w", err)
	}
	for _, a := range graph.Roots {
		if a.Err != nil {
			return nil, fmt.Errorf("%s: %s: %w", a.Package.ID, a.Analyzer, a.Err)
		}
		for _, d := range a.Diagnostics {
			found = append(found, fmt.Sprintf("%s: %s (%s)", a.Package.Fset.Position(d.Pos), d.Message, a.Analyzer))
		}
	}
	return found, nil
}
