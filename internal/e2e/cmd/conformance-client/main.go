//go:build e2e && unix

// Command conformance-client is what the client side of the official
// conformance suite drives: it starts "toolgate stdio" with the suite's scenario
// server as its one upstream server, acts as a downstream client of it, and so
// makes toolgate send what the scenario judges.
//
//	conformance-client -toolgate BINARY -dir FOLDER -era legacy|modern URL
//
// The suite appends the URL and names the scenario in MCP_CONFORMANCE_SCENARIO,
// with what belongs to it in MCP_CONFORMANCE_CONTEXT. -era is that of the client,
// not of the server. The client demands of each answer that it is the scenario
// server's own, and prints "done" when all were and toolgate has ended well: some
// scenarios do not mind how their client ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// scenarioTimeout bounds everything that happens in front of one scenario.
const scenarioTimeout = 115 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	err := run(ctx)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance-client:", err)
		os.Exit(1)
	}
	fmt.Println("done")
}

func run(ctx context.Context) error {
	binary := flag.String("toolgate", "", "the toolgate `binary`")
	dir := flag.String("dir", "", "an existing `folder` with a short path, for the configuration and the state")
	eraName := flag.String("era", "", "legacy or modern, the era of this client")
	flag.Parse()
	if *binary == "" || *dir == "" || flag.NArg() != 1 {
		return errors.New("-toolgate, -dir and one URL are needed")
	}
	era, err := parseEra(*eraName)
	if err != nil {
		return err
	}
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	drive, ok := scenarios[name]
	signs, signing := authScenarios[name]
	if !ok && !signing {
		return fmt.Errorf("unknown scenario %q", name)
	}
	folder, err := os.MkdirTemp(*dir, "s")
	if err != nil {
		return fmt.Errorf("making the folder of a scenario: %w", err)
	}
	if signing {
		if err := signs.run(ctx, *binary, filepath.Clean(folder), flag.Arg(0)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	g, err := startGateway(ctx, *binary, filepath.Clean(folder), flag.Arg(0))
	if err != nil {
		return err
	}
	c := newClient(ctx, era, g)
	if err = c.open(ctx); err == nil {
		err = drive(ctx, c)
	}
	if err != nil {
		err = fmt.Errorf("%s as a %s client: %w", name, era, err)
	}
	return errors.Join(err, c.close())
}
