package jq

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/raced"
)

// lines returns the lines of a file of testdata, without comments.
func lines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// TestLikeJQ runs programs here and in gojq as it is: the guards and the prelude change
// no result and no failure.
func TestLikeJQ(t *testing.T) {
	for _, source := range lines(t, "programs.txt") {
		q, err := gojq.Parse(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		plain, plainErr := gojq.Compile(q)
		p, err := Compile(source)
		if (err != nil) != (plainErr != nil) {
			t.Errorf("%s: %v, and gojq says %v", source, err, plainErr)
			continue
		}
		if err != nil {
			continue
		}
		for _, input := range lines(t, "inputs.txt") {
			d := json.NewDecoder(strings.NewReader(input))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			var want []string
			failed := false
			for iter := plain.Run(v); ; {
				v, ok := iter.Next()
				if !ok {
					break
				}
				if _, failed = v.(error); failed {
					break
				}
				made, err := gojq.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, string(made))
			}
			results, err := p.Run(t.Context(), []byte(input))
			if stopped, ok := errors.AsType[*StoppedError](err); ok {
				t.Errorf("%s on %s: %v", source, input, stopped)
				continue
			}
			if failed || err != nil {
				if failed != (err != nil) {
					t.Errorf("%s on %s: %v, and in gojq: %v", source, input, err, failed)
				}
				continue
			}
			if got := fmt.Sprintf("%s", results); got != fmt.Sprintf("%s", want) {
				t.Errorf("%s on %s:\n%s\nand gojq gives\n%s", source, input, got, want)
			}
		}
	}
}

// TestPrelude compiles every function of the prelude.
func TestPrelude(t *testing.T) {
	for _, d := range prelude().list {
		if strings.HasPrefix(d.key, "_") {
			continue
		}
		source := d.def.Name
		if n := len(d.def.Args); n > 0 {
			source += "(" + strings.Repeat(".; ", n-1) + ".)"
		}
		if _, err := Compile(source); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// mostAllocated bounds what a run allocates in all, in bytes: some times maxMemory,
// since lists grow by being copied.
const mostAllocated = 10 * maxMemory

// TestHostile: programs that would not end, or would take all memory, end at a limit
// that they cannot catch, and what may not be called is not compiled.
func TestHostile(t *testing.T) {
	before := runtime.NumGoroutine()
	for i, line := range lines(t, "hostile.txt") {
		if i%raced.Times(1, 4) != 0 { // each of them takes what a filter may
			continue
		}
		what, source, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("the line %q has no tab", line)
		}
		p, err := Compile(source)
		if what == "compile" {
			if _, syntax := errors.AsType[*SyntaxError](err); !syntax || strings.Contains(err.Error(), "it cannot be compiled") {
				t.Errorf("%s: is compiled, or the compiler fails: %v", source, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var then, now runtime.MemStats
		runtime.ReadMemStats(&then)
		results, err := p.Run(t.Context(), []byte("null"))
		runtime.ReadMemStats(&now)
		if used := now.TotalAlloc - then.TotalAlloc; used > mostAllocated {
			t.Errorf("%s: allocates %d MiB", source, used>>20)
		}
		if unsound := sound(results, err); unsound != nil {
			t.Errorf("%s: %v", source, unsound)
		}
		stopped, ok := errors.AsType[*StoppedError](err)
		switch {
		case what == "fails":
			if err == nil || ok {
				t.Errorf("%s: %v", source, err)
			}
		case !ok:
			size := 0
			for _, r := range results {
				size += len(r)
			}
			t.Errorf("%s: %d results of %d bytes, %v", source, len(results), size, err)
		case what == "memory" && !strings.Contains(stopped.Why, "128 MiB"):
			t.Errorf("%s: %v", source, err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines are left", after-before)
	}
}

func TestCompileErrors(t *testing.T) {
	for source, want := range map[string]string{
		".items[":                        "it ends too early, at character 8",
		".items | | .":                   `"|" is not expected, at character 10`,
		"":                               "there is no filter; write . for everything, at character 1",
		"env.PATH":                       "env is not known here: there is no environment",
		"import \"a\" as a; .":           "there are no modules, at character 1",
		"nosuch(1)":                      "the function nosuch/1 is not known here",
		strings.Repeat(".", MaxSource+1): "it has 4097 bytes and may have 4096",
	} {
		if _, err := Compile(source); err == nil || err.Error() != want {
			t.Errorf("%.40s: %v\nwant %s", source, err, want)
		}
	}
}

func TestRunEnds(t *testing.T) {
	p, err := Compile("[range(1e18)]")
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := p.Run(ctx, []byte("null")); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if _, err := p.Run(t.Context(), make([]byte, MaxInput+1)); err == nil || !strings.Contains(err.Error(), "is given 4194304 at most") {
		t.Errorf("%v", err)
	}
	failing, err := Compile(`error("x" * 1000)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := failing.Run(t.Context(), []byte("null")); err == nil || len(err.Error()) > maxProblem+10 {
		t.Errorf("%v", err)
	}
}

// TestDigits: numbers that a program does not compute with keep their text.
func TestDigits(t *testing.T) {
	p, err := Compile(".")
	if err != nil {
		t.Fatal(err)
	}
	const text = `[9007199254740993,12345678901234567890,1.50,-0,1E400,0.1,-12]`
	got, err := p.Run(t.Context(), []byte(text))
	if err != nil || len(got) != 1 || string(got[0]) != text {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := p.Run(t.Context(), []byte(strings.Repeat("9", maxDigits+1))); err == nil {
		t.Error("a number of too many digits is read")
	}
}

// TestConcurrent runs one program many times at once.
func TestConcurrent(t *testing.T) {
	p, err := Compile(`[.[] | . * 2] | add`)
	if err != nil {
		t.Fatal(err)
	}
	const runs = 32
	failures := make(chan error, runs)
	for i := range runs {
		go func() {
			got, err := p.Run(t.Context(), fmt.Appendf(nil, "[%d,1]", i))
			if want := fmt.Sprint(2*i + 2); err == nil && (len(got) != 1 || string(got[0]) != want) {
				err = fmt.Errorf("%s, and want %s", got, want)
			}
			failures <- err
		}()
	}
	for range runs {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

// sound tells what no run of any program may leave: a fault of its own, or a result that is
// not JSON.
func sound(results [][]byte, err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "it failed: ") {
		return err
	}
	for _, result := range results {
		if err := mcp.Validate(result, mcp.Limits{Depth: maxDepth + 2}); err != nil {
			return fmt.Errorf("%s: %w", result, err)
		}
	}
	return nil
}

func FuzzRun(f *testing.F) {
	for _, source := range lines(f, "programs.txt") {
		f.Add(source, `{"items":[{"id":1}],"n":1.5}`)
	}
	if flag.Lookup("test.fuzz").Value.String() != "" { // else TestHostile runs them, at the price of seconds
		for _, line := range lines(f, "hostile.txt") {
			_, source, _ := strings.Cut(line, "\t")
			f.Add(source, "null")
		}
	}
	f.Fuzz(func(t *testing.T, source, input string) {
		p, err := Compile(source)
		if err != nil {
			if strings.Contains(err.Error(), "it cannot be compiled") {
				t.Fatal(err)
			}
			return
		}
		if mcp.Validate([]byte(input), mcp.Limits{}) != nil {
			return
		}
		if err := sound(p.Run(t.Context(), []byte(input))); err != nil {
			t.Fatal(err)
		}
	})
}

// hundredKB is a list of issues of 100 KB, as a server returns it.
func hundredKB() []byte {
	out := []byte(`{"items":[`)
	for i := 0; len(out) < 100<<10; i++ {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"id":%d,"title":"Issue number %d","state":"open","user":{"login":"someone","id":%d,"avatar_url":"https://example.com/u/%d"},"labels":[{"name":"bug","color":"ff0000"}],"comments":%d,"body":"A text of some length that describes what is wrong, \"in quotes\", and how it could be put right."}`, i, i, i, i, i%7)
	}
	return append(out, "]}"...)
}

// BenchmarkSelect is a select on 100 KB.
func BenchmarkSelect(b *testing.B) {
	input := hundredKB()
	for _, source := range []string{".items[] | {id, title}", "[.items[] | select(.comments > 3) | .title]", "walk(if type == \"object\" then del(.avatar_url) else . end)"} {
		b.Run(source, func(b *testing.B) {
			p, err := Compile(source)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, err := p.Run(b.Context(), input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(".items[] | select(.comments > 3) | {id, title}"); err != nil {
			b.Fatal(err)
		}
	}
}
