package background

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits does so until nothing runs, and something may begin at any time.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Group
		b.Wait()
		var ended atomic.Int32
		for i := range 3 {
			b.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				ended.Add(1)
			})
		}
		waited := make(chan int32, 2)
		for range 2 {
			go func() { b.Wait(); waited <- ended.Load() }()
		}
		for range 2 {
			if n := <-waited; n != 3 {
				t.Errorf("it has waited for %d of 3", n)
			}
		}
	})
	var b Group
	for range 1000 { // the end and a beginning at once
		waited := make(chan struct{})
		go func() { b.Wait(); close(waited) }()
		b.Go(func() {})
		<-waited
		b.Wait()
	}
}
