//go:build amd64 || arm64

package shim

import "errors"

// Plan is what a shim does. Everything in it was checked by whoever wrote it: the
// shim applies it in full or does not run the program.
type Plan struct {
	Probe   int // not zero: end after everything is applied, and run nothing
	Program int // descriptor of the program
	Unnamed int // not zero: the program is nowhere but behind its descriptor
	Path    string
	Argv    []string
	Env     []string // the environment of the shim itself is added
	Dir     string
	Keep    int // descriptors below this one stay open in the program
	Report  int // descriptor that is told why the program does not run
	Gate    int // descriptor that a byte comes from before anything is done; 0 is none

	NewRoot   string // folder to build the program's file system on; "" keeps the old one
	Proc      int    // not zero: a proc of its own, with nothing but its processes
	MaxPID    int    // of the process identifier namespace; 0 leaves it
	Landlock  int    // version of the interface that is used; 0 is none
	Seccomp   int    // not zero: system calls are filtered
	Privilege int    // not zero: privileges stay as they are

	Network     int // one of the networks below
	Listen      int // not zero: Unix sockets may be listened on
	NoProcesses int // not zero: no process is started and no program run
	Alone       int // not zero: no other process can be seen, because of a namespace

	Grants []Grant
	Links  []Link
	Limits []Limit
}

// The networks.
const (
	NoNetwork = iota
	FullNetwork
)

// Grant is something in the file system that may be used, by its real path.
type Grant struct {
	Path   string
	Access int // Read, Write, Run, Device
}

// What a [Grant] allows. Each includes reading.
const (
	Read = 1 << iota
	Write
	Run
	Device // it is written although nothing of the file system is changed
)

// Link is a symbolic link on the way to what is granted.
type Link struct{ Path, Target string }

// Limit is a resource limit.
type Limit struct{ Resource, Soft, Hard int }

// errPlan is a plan that cannot be read.
var errPlan = errors.New("the plan is damaged")

// maxPlan is how long a plan may be, in bytes.
const maxPlan = 4 << 20

// Encode returns p as bytes.
func (p *Plan) Encode() []byte {
	c := coder{}
	c.plan(p)
	return c.data
}

// decode reads what Encode wrote.
func (p *Plan) decode(data []byte) error {
	c := coder{data: data, reads: true}
	c.plan(p)
	if c.bad || len(c.data) != 0 {
		return errPlan
	}
	return nil
}

// coder writes or reads: one description of the bytes serves both directions.
type coder struct {
	data  []byte // what was written, or is left to be read
	reads bool
	bad   bool
}

func (c *coder) plan(p *Plan) {
	for _, n := range []*int{
		&p.Probe, &p.Program, &p.Unnamed, &p.NoProcesses, &p.Keep, &p.Report, &p.Gate, &p.Proc, &p.MaxPID, &p.Landlock,
		&p.Seccomp, &p.Privilege, &p.Network, &p.Listen, &p.Alone,
	} {
		c.number(n)
	}
	for _, s := range []*string{&p.Path, &p.Dir, &p.NewRoot} {
		c.text(s)
	}
	c.texts(&p.Argv)
	c.texts(&p.Env)
	n := len(p.Grants)
	if c.length(&n) {
		p.Grants = make([]Grant, n)
	}
	for i := range p.Grants {
		c.text(&p.Grants[i].Path)
		c.number(&p.Grants[i].Access)
	}
	n = len(p.Links)
	if c.length(&n) {
		p.Links = make([]Link, n)
	}
	for i := range p.Links {
		c.text(&p.Links[i].Path)
		c.text(&p.Links[i].Target)
	}
	n = len(p.Limits)
	if c.length(&n) {
		p.Limits = make([]Limit, n)
	}
	for i := range p.Limits {
		c.number(&p.Limits[i].Resource)
		c.number(&p.Limits[i].Soft)
		c.number(&p.Limits[i].Hard)
	}
}

func (c *coder) number(n *int) {
	if !c.reads {
		for i := range 8 {
			c.data = append(c.data, byte(uint64(*n)>>(8*i))) // every bit is kept
		}
		return
	}
	if len(c.data) < 8 {
		c.bad, *n = true, 0
		return
	}
	v := uint64(0)
	for i := range 8 {
		v |= uint64(c.data[i]) << (8 * i)
	}
	*n, c.data = int(v), c.data[8:] // every bit is kept
}

// length is a number that cannot be more than what is left to be read. It reports
// whether there is a list of that length to be made.
func (c *coder) length(n *int) bool {
	c.number(n)
	if c.reads && (*n < 0 || *n > len(c.data)) {
		c.bad, *n = true, 0
	}
	return c.reads && *n > 0
}

func (c *coder) text(s *string) {
	n := len(*s)
	c.length(&n)
	if !c.reads {
		c.data = append(c.data, *s...)
		return
	}
	*s, c.data = string(c.data[:n]), c.data[n:]
}

func (c *coder) texts(list *[]string) {
	n := len(*list)
	if c.length(&n) {
		*list = make([]string, n)
	}
	for i := range *list {
		c.text(&(*list)[i])
	}
}
