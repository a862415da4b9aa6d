package limit_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/proxy/limit"
)

const mib = 1 << 20

// The memory of a message is allocated as it arrives, and exact in the end if its size
// was announced.
func TestMemoryFollowsWhatComes(t *testing.T) {
	b := limit.NewBytes(256*mib, 16*mib)
	for _, size := range []int{0, 1, limit.Free, limit.Free + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, mib, 5*mib + 3, 16 * mib} {
		want := bytes.Repeat([]byte("b"), size)
		for _, known := range []int64{int64(size), -1} {
			c := b.Claim("alice")
			got, err := c.Read(bytes.NewReader(want), known, 16*mib)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, announced as %d: %d bytes, %v", size, known, len(got), err)
			}
			if known >= 0 && cap(got) != size || cap(got) > max(512, 2*size) {
				t.Errorf("%d bytes, announced as %d: %d bytes of memory", size, known, cap(got))
			}
			if counted := b.Used(); counted != int64(max(0, cap(got)-limit.Free)) {
				t.Errorf("%d bytes of memory: %d are counted", cap(got), counted)
			}
			c.Release()
			c.Release()
		}
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are still counted", b.Used())
	}
	c := b.Claim("alice")
	got, err := c.Read(strings.NewReader("short"), 16*mib, 16*mib)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "short" || cap(got) > 64<<10 {
		t.Errorf("a message that ends early: %v, %d bytes of memory", err, cap(got))
	}
	c.Release()
}

func TestTooLarge(t *testing.T) {
	b := limit.NewBytes(256*mib, mib)
	for _, known := range []int64{mib + 1, -1} {
		c := b.Claim("alice")
		if _, err := c.Read(io.LimitReader(zeros{}, mib+1), known, mib); !errors.Is(err, limit.ErrTooLarge) {
			t.Errorf("announced as %d: %v", known, err)
		}
		c.Release()
	}
	broken := errors.New("broken")
	if _, err := b.Claim("alice").Read(io.MultiReader(strings.NewReader("ab"), failing{broken}), -1, mib); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// Many large messages take no more than the limit, of one caller no more than half of
// it, and small ones still pass.
func TestMessagesAreBounded(t *testing.T) {
	b := limit.NewBytes(64*mib, 16*mib)
	read := func(who string, size int64) (*limit.Claim, error) {
		c := b.Claim(who)
		_, err := c.Read(io.LimitReader(zeros{}, size), size, 16*mib)
		return c, err
	}
	fill := func(who string) (held []*limit.Claim) {
		for {
			c, err := read(who, 8*mib)
			if err != nil {
				if !errors.Is(err, limit.ErrFull) {
					t.Fatal(err)
				}
				c.Release()
				return held
			}
			held = append(held, c)
		}
	}
	alice := fill("alice")
	if n := len(alice); n != 4 {
		t.Errorf("one caller has %d messages of 8 MiB, want 4 of the 8", n)
	}
	bob := fill("bob")
	if n := len(bob); n != 4 || b.Used() > 64*mib {
		t.Errorf("another has %d, in all %d bytes", n, b.Used())
	}
	if _, err := read("carol", limit.Free); err != nil {
		t.Errorf("a small message: %v", err)
	}
	for _, c := range append(alice, bob...) {
		c.Release()
	}
	if _, err := read("carol", 16*mib); err != nil {
		t.Errorf("after the end of the others: %v", err)
	}
}

// Announced bytes that do not arrive take next to no memory.
func TestUnfinishedMessagesAreSmall(t *testing.T) {
	b := limit.NewBytes(64*mib, 16*mib)
	var all sync.WaitGroup
	var ends []*io.PipeWriter
	for range 300 {
		r, w := io.Pipe()
		ends = append(ends, w)
		c := b.Claim("alice")
		all.Go(func() {
			defer c.Release()
			_, _ = c.Read(r, 16*mib, 16*mib)
		})
		if _, err := w.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if used := b.Used(); used > 300*(64<<10) {
		t.Errorf("300 messages of one byte count as %d bytes", used)
	}
	for _, w := range ends {
		w.Close()
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are still counted", b.Used())
	}
}

// While memory is scarce, large messages do not begin, and those under way finish.
func TestScarceMemory(t *testing.T) {
	b := limit.NewBytes(64*mib, 16*mib)
	under := b.Claim("alice")
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := under.Read(r, mib, mib)
		ended <- err
	}()
	_, _ = w.Write(make([]byte, 1000))
	b.Scarce(true)
	go func() { _, _ = w.Write(make([]byte, mib)); w.Close() }()
	if err := <-ended; !errors.Is(err, limit.ErrScarce) {
		t.Errorf("a message under way: %v", err)
	}
	r.Close()
	for size, want := range map[int64]error{limit.Small: nil, limit.Small + 1: limit.ErrScarce} {
		if _, err := b.Claim("bob").Read(io.LimitReader(zeros{}, size), size, mib); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
	b.Scarce(false)
	if _, err := b.Claim("bob").Read(io.LimitReader(zeros{}, mib), mib, mib); err != nil {
		t.Errorf("when there is enough again: %v", err)
	}
}

// The zero limit accepts only small messages.
func TestZeroBytes(t *testing.T) {
	var b limit.Bytes
	if _, err := b.Claim("alice").Read(strings.NewReader("{}"), 2, mib); err != nil {
		t.Error(err)
	}
	if _, err := b.Claim("alice").Read(io.LimitReader(zeros{}, mib), mib, mib); !errors.Is(err, limit.ErrFull) {
		t.Errorf("a large message: %v", err)
	}
}

// Whatever many callers do concurrently, the count never exceeds the limit and ends at
// zero.
func TestCountIsExact(t *testing.T) {
	b := limit.NewBytes(4*mib, mib)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				c := b.Claim(string(rune('a' + i%3)))
				size := rnd.Int64N(2 * mib)
				known := size
				if rnd.IntN(2) == 0 {
					known = -1
				}
				_, _ = c.Read(io.LimitReader(zeros{}, size), known, mib)
				if used := b.Used(); used > 4*mib || used < 0 {
					t.Errorf("%d bytes are counted", used)
				}
				c.Release()
			}
		})
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are still counted", b.Used())
	}
}

func TestAppend(t *testing.T) {
	b := limit.NewBytes(mib, 256<<10)
	c := b.Claim("alice")
	var line, want []byte
	var err error
	for range 40 {
		part := bytes.Repeat([]byte("x"), 1000)
		want = append(want, part...)
		if line, err = c.Append(line, part); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(line, want) || b.Used() != int64(cap(line)-limit.Free) {
		t.Errorf("%d bytes, %d of memory, %d counted", len(line), cap(line), b.Used())
	}
	for err == nil {
		line, err = c.Append(line, make([]byte, 64<<10))
	}
	if !errors.Is(err, limit.ErrFull) || b.Used() > mib/2 {
		t.Errorf("%v with %d bytes counted", err, b.Used())
	}
	c.Release()
	if b.Used() != 0 {
		t.Errorf("%d bytes are still counted", b.Used())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func BenchmarkRead(b *testing.B) {
	bound := limit.NewBytes(256*mib, 16*mib)
	for name, size := range map[string]int{"200B": 200, "100KiB": 100 << 10} {
		body := make([]byte, size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := bytes.NewReader(body)
			for b.Loop() {
				r.Reset(body)
				c := bound.Claim("alice")
				if _, err := c.Read(r, int64(size), 16*mib); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}
