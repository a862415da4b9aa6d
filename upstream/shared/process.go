package shared

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	// maxAnswers is how many questions of a process may wait for their answers. More are not
	// answered.
	maxAnswers = 64
	// answerTime bounds the time to send an answer.
	answerTime = 5 * time.Second
)

// process is one process and the links to it. It is safe for concurrent use.
type process struct {
	link    transport.Link
	wg      sync.WaitGroup
	depth   int         // of its messages
	answers chan []byte // to its questions

	hello    chan struct{} // capacity 1: held by the link that initializes it
	watching chan struct{} // capacity 1: held by the link that changes its subscriptions

	mu       sync.Mutex
	links    map[*Link]struct{}
	ids      int64
	answered *mcp.Message              // to initialize; nil before
	told     bool                      // that it is initialized
	watched  map[string]map[*Link]bool // who is subscribed to a resource
	level    int                       // the most verbose log level asked for
}

func newProcess(depth int) *process {
	return &process{
		depth: depth, answers: make(chan []byte, maxAnswers), hello: make(chan struct{}, 1), watching: make(chan struct{}, 1),
		links: make(map[*Link]struct{}), watched: make(map[string]map[*Link]bool),
	}
}

func (p *process) parse(raw []byte) (mcp.Message, error) {
	return mcp.Parse(raw, mcp.Limits{Depth: p.depth, LoneSurrogates: true})
}

func (p *process) join(l *Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
}

// drop removes a link. It returns the resources that only this link was subscribed to.
func (p *process) drop(l *Link) (uris []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	for uri, who := range p.watched {
		if delete(who, l); len(who) == 0 {
			delete(p.watched, uri)
			uris = append(uris, uri)
		}
	}
	return uris
}

// alone tells whether nobody uses the process.
func (p *process) alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links) == 0
}

// follow ends the links when the process is lost.
func (p *process) follow() {
	<-p.link.Done()
	p.fail(p.link.Cause())
}

// fail ends the links.
func (p *process) fail(why error) {
	for _, l := range p.all() {
		l.Fail(why)
	}
}

// leave tells the links that the process is to run elsewhere, and returns them.
func (p *process) leave() []*Link {
	msg, err := p.parse(mcp.AppendNotification(nil, Leave, nil))
	if err != nil {
		panic(err) // it is our own
	}
	told := p.all()
	for _, l := range told {
		l.inbound(msg)
	}
	return told
}

// turn waits for the turn to change subscriptions.
func (p *process) turn(ctx context.Context) error {
	select {
	case p.watching <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.link.Done():
		return p.link.Cause()
	}
}

func (p *process) all() []*Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.links))
}

// number returns an id that no request of any link has.
func (p *process) number() mcp.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	return mcp.NumberID(p.ids)
}

// said takes a message that belongs to no request. It is for all links; a question is
// refused, because nobody has declared to answer any.
func (p *process) said(msg mcp.Message) {
	if msg.Method == Leave {
		return // the host says that, not the process
	}
	if msg.Kind == mcp.KindNotification {
		for _, l := range p.all() {
			l.inbound(msg)
		}
		return
	}
	answer := mcp.AppendResult(nil, msg.ID, []byte("{}"))
	if msg.Method != mcp.MethodPing {
		answer = mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "several gateways share this server, so that %s is not relayed", transport.Excerpt([]byte(msg.Method))))
	}
	select {
	case p.answers <- answer:
	default:
	}
}

// answer sends the answers to questions until the process is lost.
func (p *process) answer() {
	for {
		select {
		case raw := <-p.answers:
			ctx, cancel := context.WithTimeout(context.Background(), answerTime)
			_ = p.link.Send(ctx, raw, nil) // else it is lost, or does not read
			cancel()
		case <-p.link.Done():
			return
		}
	}
}

// initialized returns the answer to initialize, nil before.
func (p *process) initialized() *mcp.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// tell tells whether the process has yet to hear that it is initialized.
func (p *process) tell() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = true
	return !told
}

// watchedBy returns how many links are subscribed to a resource.
func (p *process) watchedBy(uri string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watched[uri])
}

// watch notes that a link is subscribed to a resource.
func (p *process) watch(l *Link, uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched[uri] == nil {
		p.watched[uri] = make(map[*Link]bool)
	}
	p.watched[uri][l] = true
}

// unwatch notes that a link is not subscribed any more, and tells whether no other is.
func (p *process) unwatch(l *Link, uri string) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watched[uri], l)
	if len(p.watched[uri]) > 0 {
		return false
	}
	delete(p.watched, uri)
	return true
}

// loud returns the most verbose log level asked for.
func (p *process) loud() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.level
}

// louder notes that the process was asked for a log level.
func (p *process) louder(level int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = max(p.level, level)
}
