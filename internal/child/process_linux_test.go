package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// TestProcessDiesWithGateway ends a gateway in ways it cannot do anything
// about, and looks for its child.
func TestProcessDiesWithGateway(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		l := newLeash(t)
		gateway := exec.Command(os.Args[0])
		gateway.Env = []string{childVariable + "=gateway", raceSetting, l.variable()}
		if err := gateway.Start(); err != nil {
			t.Fatal(err)
		}
		l.await("deaf")
		if err := gateway.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		l.gone("deaf")
		if err := gateway.Wait(); err == nil {
			t.Error("the gateway ended well")
		}
	})
	t.Run("a reader panics", func(t *testing.T) {
		t.Parallel()
		l := newLeash(t)
		gateway := startChild(t, childSpec("panicking", l.variable()))
		l.await("deaf")
		l.gone("deaf")
		if exit := awaitDone(t, gateway); exit.Code != 2 {
			t.Errorf("gateway: %v", exit)
		}
	})
}

// TestProcessOutlivesThreads ends many threads while and after processes are
// started. Were the death signal tied to one of them, its process would go too.
func TestProcessOutlivesThreads(t *testing.T) {
	endThreads := func(n int) {
		var ended sync.WaitGroup
		for range n {
			ended.Go(runtime.LockOSThread) // and takes its thread along
		}
		ended.Wait()
	}
	stop := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				endThreads(4)
			}
		}
	})
	var children [16]*Process
	for i := range children {
		children[i] = startChild(t, childSpec("echo"))
	}
	close(stop)
	ending.Wait()
	endThreads(100)
	for _, p := range children {
		if _, err := io.WriteString(p.Stdin(), "still here\n"); err != nil {
			t.Error(err)
		}
		if got, err := bufio.NewReader(p.Stdout()).ReadString('\n'); got != "still here\n" || err != nil {
			t.Errorf("echo = %q, %v; %v", got, err, p.Err())
		}
	}
}
