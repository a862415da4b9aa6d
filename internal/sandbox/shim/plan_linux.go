//go:build amd64 || arm64

package shim

import "errors"

// Plan is the work of a shim. Its author has checked everything in it. The shim
// applies it in full or does not run the program.
type Plan struct {
	Probe   int // not zero: end after everything is applied, and run nothing
	Program int // descriptor of the program
	Unnamed int // not zero: the program exists only behind its descriptor
	Path    string
	Argv    []string
	Env     []string // the environment of the shim itself is added
	Dir     string
	Keep    int // descriptors below this one stay open in the program
	Report  int // descriptor for the reason why the program does not run
	Gate    int // descriptor from which a byte must arrive first; 0: none

	NewRoot   string // folder for the program's new file system; "" keeps the old one
	Proc      int    // not zero: mount a proc with only its own processes
	MaxPID    int    // limit of the PID namespace; 0: unchanged
	Landlock  int    // ABI version to use; 0: no Landlock
	Seccomp   int    // not zero: filter system calls
	Privilege int    // not zero: keep privileges

	Network     int // one of the networks below
	Listen      int // not zero: listening on Unix sockets is allowed
	NoProcesses int // not zero: starting processes and programs is forbidden
	Alone       int // not zero: a namespace hides all other processes

	Grants []Grant
	Links  []Link
	Limits []Limit
}

// The networks.
const (
	NoNetwork = iota
	FullNetwork
)

// Grant is a usable file or folder, by its real path.
type Grant struct {
	Path   string
	Access int // Read, Write, Run, Device
}

// Access rights of a [Grant]. Each includes reading.
const (
	Read = 1 << iota
	Write
	Run
	Device // a device may be written, although the file system is read-only
)

// Link is a symbolic link on the path to a grant.
type Link struct{ Path, Target string }

// Limit is a resource limit.
type Limit struct{ Resource, Soft, Hard int }

// errPlan says that a plan cannot be read.
var errPlan = errors.New("the plan is damaged")

// maxPlan bounds the length of a plan, in bytes.
const maxPlan = 4 << 20

// Encode serializes p.
func (p *Plan) Encode() []byte {
	c := coder{}
	c.plan(p)
	return c.data
}

// decode reads the output of Encode.
func (p *Plan) decode(data []byte) error {
	c := coder{data: data, reads: true}
	c.plan(p)
	if c.bad || len(c.data) != 0 {
		return errPlan
	}
	return nil
}

// coder writes or reads: one description of the format serves both directions.
type coder struct {
	data  []byte // the bytes written so far, or still to read
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

// length codes a number that cannot exceed the bytes left to read. It reports whether
// the caller has to make a list of that length.
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
