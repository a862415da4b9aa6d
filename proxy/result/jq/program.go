package jq

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"
)

// Limits of a program and of what it is given and returns, in bytes. The limits of a run
// are maxSteps, maxMemory and maxTime.
const (
	MaxSource = 4 << 10
	MaxInput  = 4 << 20
	MaxOutput = 4 << 20
)

// SyntaxError is why a program does not compile.
type SyntaxError struct {
	Offset int // in the program, in bytes; -1 where it is not known
	What   string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return e.What
	}
	return fmt.Sprintf("%s, at character %d", e.What, e.Offset+1)
}

// StoppedError ends a run that reached a limit.
type StoppedError struct{ Why string }

// Error implements error.
func (e *StoppedError) Error() string { return "it was stopped: " + e.Why }

// Program is a compiled program. It is safe for concurrent use.
type Program struct {
	source string
	query  *gojq.Query
	enter  int64     // bytes of a call of a function
	ready  sync.Pool // of *instance
}

// instance is a program with a meter of its own. One run uses it at a time.
type instance struct {
	m    *meter
	code *gojq.Code
}

// String returns the program as it was written.
func (p *Program) String() string { return p.source }

// Compile compiles a program. The error is a [*SyntaxError].
func Compile(source string) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, &SyntaxError{-1, fmt.Sprint("it cannot be compiled: ", r)}
		}
	}()
	if len(source) > MaxSource {
		return nil, &SyntaxError{-1, fmt.Sprintf("it has %d bytes and may have %d", len(source), MaxSource)}
	}
	if strings.TrimSpace(source) == "" {
		return nil, &SyntaxError{0, "there is no filter; write . for everything"}
	}
	q, err := gojq.Parse(source)
	if err != nil {
		return nil, syntaxError(source, err)
	}
	if q.Meta != nil || len(q.Imports) > 0 {
		return nil, &SyntaxError{0, "there are no modules"}
	}
	known := prelude()
	r := &rewriter{known: known.names, used: map[string]bool{}}
	out := r.query(q)
	if r.problem != nil {
		return nil, &SyntaxError{-1, r.problem.Error()}
	}
	defs, values := known.needed(r.used)
	out.FuncDefs = append(defs, out.FuncDefs...)
	p = &Program{source: source, query: out, enter: 256 + sizeValue*int64(values+r.values)}
	made, err := p.compile()
	if err != nil {
		return nil, &SyntaxError{-1, err.Error()}
	}
	p.ready.Put(made)
	return p, nil
}

// syntaxError places an error of the parser.
func syntaxError(source string, err error) *SyntaxError {
	parse, ok := errors.AsType[*gojq.ParseError](err)
	if !ok {
		return &SyntaxError{-1, err.Error()}
	}
	at := max(parse.Offset-len(parse.Token), 0)
	if parse.Token == "" || at >= len(source) {
		return &SyntaxError{len(source), "it ends too early"}
	}
	return &SyntaxError{at, fmt.Sprintf("%q is not expected", parse.Token)}
}

func (p *Program) compile() (*instance, error) {
	m := &meter{enter: p.enter}
	code, err := gojq.Compile(p.query, m.options()...)
	return &instance{m, code}, err
}

// running bounds how many programs and searches run at the same time, and so the memory of all of
// them together. They only compute, so more of them would not be faster.
var running = make(chan struct{}, runtime.GOMAXPROCS(0))

// maxWait is how long a run waits for others.
const maxWait = 5 * time.Second

// Enter waits until one more program or search may run. The caller calls leave when it
// is done. The error is a [*StoppedError] or the cause of the context.
func Enter(ctx context.Context) (leave func(), err error) {
	wait := time.NewTimer(maxWait)
	defer wait.Stop()
	select {
	case running <- struct{}{}:
		return func() { <-running }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-wait.C:
		return nil, &StoppedError{"too many others run"}
	}
}

// Run runs the program on a validated JSON value and returns its results, each as JSON.
// Whole numbers keep their digits; the members of objects are sorted by name. The error
// is a [*StoppedError], the error of the program itself, or the cause of the context.
func (p *Program) Run(ctx context.Context, input []byte) (results [][]byte, err error) {
	if len(input) > MaxInput {
		return nil, &StoppedError{fmt.Sprintf("the result has %d bytes, and a program is given %d at most", len(input), MaxInput)}
	}
	leave, err := Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	i, _ := p.ready.Get().(*instance)
	if i == nil {
		if i, err = p.compile(); err != nil {
			return nil, err
		}
	}
	i.m.start(ctx)
	defer func() {
		if r := recover(); r != nil { // the instance is not used again
			results, err = nil, fmt.Errorf("it failed: %v", r)
			return
		}
		i.m.Context = nil
		p.ready.Put(i)
	}()
	results, err = i.run(input)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case i.m.why != "":
		return nil, &StoppedError{i.m.why}
	case err != nil:
		return nil, errors.New(brief(err.Error()))
	}
	return results, nil
}

// maxProblem is how much of an error of a program is passed on, in bytes.
const maxProblem = 300

func brief(text string) string {
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + " ..."
	}
	return text
}

func (i *instance) run(input []byte) (results [][]byte, err error) {
	d := decoder{m: i.m, text: input}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for iter := i.code.RunWithContext(i.m, v); ; {
		v, more := iter.Next()
		if !more || i.m.why != "" {
			return results, nil
		}
		if err, failed := v.(error); failed {
			return nil, err
		}
		_, bytes, err := i.m.measure(v)
		if err != nil {
			return nil, err
		}
		if size += bytes + sizeElement; size > MaxOutput {
			return nil, i.m.stop(fmt.Sprintf("it returns more than %d bytes", MaxOutput))
		}
		made, err := gojq.Marshal(v)
		if err != nil {
			return nil, err
		}
		results = append(results, made)
	}
}

//go:embed prelude.jq
var preludeText string

// definitions are the functions of the prelude with their guards.
type definitions struct {
	names map[string]bool
	list  []definition // each uses only earlier ones
}

type definition struct {
	key    string
	def    *gojq.FuncDef
	used   map[string]bool
	values int
}

var prelude = sync.OnceValue(func() *definitions {
	q, err := gojq.Parse(preludeText)
	if err != nil {
		panic(err) // a test compiles every one of them
	}
	known := &definitions{names: map[string]bool{}}
	for _, def := range q.FuncDefs {
		r := &rewriter{own: true, known: known.names, used: map[string]bool{}}
		made := r.definition(def)
		if r.problem != nil {
			panic(fmt.Sprintf("%s: %v", def.Name, r.problem))
		}
		name := key(def.Name, len(def.Args))
		known.list = append(known.list, definition{name, made, r.used, r.values})
		known.names[name] = true
	}
	return known
})

// needed returns the definitions that a program needs which calls these functions.
func (d *definitions) needed(called map[string]bool) (defs []*gojq.FuncDef, values int) {
	need := map[string]bool{}
	for i := len(d.list) - 1; i >= 0; i-- {
		if one := &d.list[i]; called[one.key] || need[one.key] {
			defs = append(defs, one.def)
			values += one.values
			for name := range one.used {
				need[name] = true
			}
		}
	}
	for l, r := 0, len(defs)-1; l < r; l, r = l+1, r-1 {
		defs[l], defs[r] = defs[r], defs[l]
	}
	return defs, values
}
