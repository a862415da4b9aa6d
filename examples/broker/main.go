// Command broker is a NATS server with JetStream, for the example of a worker. It listens on
// an address of this machine, keeps its streams in a folder, and runs until it is stopped:
//
//	broker 127.0.0.1:7797 jobs
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTime bounds the start of the server.
const startTime = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: broker ADDRESS FOLDER")
	}
	host, text, err := net.SplitHostPort(args[0])
	if err != nil {
		return fmt.Errorf("read the address: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("read the port: %w", err)
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: args[1], NoLog: true, NoSigs: true})
	if err != nil {
		return fmt.Errorf("make the server: %w", err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(startTime) {
		return fmt.Errorf("the server does not listen on %s within %v", args[0], startTime)
	}
	fmt.Println("NATS listens on", args[0])
	<-ctx.Done()
	return nil
}
