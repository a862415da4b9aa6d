package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// benchTime and soakTime bound a whole run.
const (
	benchTime = 30 * time.Minute
	soakTime  = 30 * time.Minute
)

// errMissed tells that everything was measured and a limit was missed.
var errMissed = errors.New("a limit was missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if program := programs[os.Args[1]]; program != nil {
			exit(program(ctx, os.Args[2:]))
			return
		}
	}
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// programs are what the binary can be besides the runner. Each ends when its
// standard input does, so that none outlives the runner.
var programs = map[string]func(context.Context, []string) error{
	"upstream": upstreamProgram,
	"pipe":     pipeProgram,
	"light":    lightProgram,
	"bridge":   bridgeProgram,
	"reverse":  reverseProgram,
	"load":     loadProgram,
}

// run is the runner: it measures what the arguments ask for, writes the tables
// to out and tells on errOut how far it is.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	quick := flags.Bool("quick", false, "small counts, no judgement")
	long := flags.Bool("soak", false, "long counts instead of the table of ratios")
	binary := flags.String("toolgate", "", "`file` of a built toolgate; built when empty")
	only := flags.String("only", "", "`text` that the name of a case must contain")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; there is no command of this name", flags.Arg(0))
	}
	most := benchTime
	if *long {
		most = soakTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not finished within %v", most))
	defer cancel()
	lab, err := newLab(ctx, *binary)
	if err != nil {
		return err
	}
	defer lab.close()
	lab.log = errOut
	if *long {
		return soak(ctx, lab, soakCounts(*quick), *only, out)
	}
	return bench(ctx, lab, benchCounts(*quick), *only, out)
}
