package keyring

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	ring "github.com/zalando/go-keyring"
)

// errNoRing means that this process can reach no key ring.
var errNoRing = errors.New("this system has no key ring that can be reached from here")

// calls are the calls of the library.
type calls interface {
	Get(service, name string) (string, error)
	Set(service, name, value string) error
	Delete(service, name string) error
}

// library is the library itself.
type library struct{}

func (library) Get(service, name string) (string, error) { return ring.Get(service, name) }
func (library) Set(service, name, value string) error    { return ring.Set(service, name, value) }
func (library) Delete(service, name string) error        { return ring.Delete(service, name) }

// link is the way to the key ring during one call. close may come before open, and twice;
// it ends the call that waits for an answer, where the system allows that.
type link interface {
	open() error
	close()
}

// system is the key ring of the system. The library knows no deadlines, and a key ring may
// wait for a person to unlock it. So each call has a goroutine, and there is one call at a
// time. A call that is given up is interrupted where the system allows that; while it goes
// on nevertheless, further calls fail at once.
type system struct {
	calls calls
	dial  func() link
	slot  chan struct{} // holds one token while a call runs

	mu   sync.Mutex
	late bool // the call that runs was given up
}

// own is the key ring of this process's system: the library has one connection to it.
var own = newSystem(library{}, func() link { return &connection{} })

func newSystem(c calls, dial func() link) *system {
	return &system{calls: c, dial: dial, slot: make(chan struct{}, 1)}
}

func (s *system) get(ctx context.Context, name string) (value string, err error) {
	return s.do(ctx, func() (string, error) { return s.calls.Get(Service, name) })
}

func (s *system) set(ctx context.Context, name, value string) error {
	_, err := s.do(ctx, func() (string, error) { return "", s.calls.Set(Service, name, value) })
	return err
}

func (s *system) remove(ctx context.Context, name string) error {
	_, err := s.do(ctx, func() (string, error) { return "", s.calls.Delete(Service, name) })
	return err
}

func (s *system) do(ctx context.Context, call func() (string, error)) (string, error) {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	if late {
		return "", errors.New("the key ring has not answered an earlier call, and may be locked")
	}
	errLate := func() error {
		return fmt.Errorf("the key ring does not answer, and may be locked: %w", ctx.Err())
	}
	select {
	case s.slot <- struct{}{}:
	case <-ctx.Done():
		return "", errLate()
	}
	bus, ended := s.dial(), false
	done := make(chan answer, 1)
	go func() { // ends with the call; there is one at a time
		done <- attempt(bus, call)
		bus.close()
		s.mu.Lock()
		ended, s.late = true, false
		s.mu.Unlock()
		<-s.slot
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		s.mu.Lock()
		s.late = !ended
		s.mu.Unlock()
		bus.close()
		return "", errLate()
	}
}

// attempt runs a call. The library panics when its connection is closed while it waits for
// a person.
func attempt(bus link, call func() (string, error)) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{"", fmt.Errorf("the call was interrupted: %v", r)}
		}
	}()
	if err := bus.open(); err != nil {
		return answer{"", err}
	}
	value, err := call()
	if absent(err) || errors.Is(err, ring.ErrUnsupportedPlatform) || errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errNoRing, err)
	}
	return answer{value, err}
}
